// How the search ranks what it finds: a topic's lesson before its evidence, the glossary after the
// lessons, what is for teachers last. make.py puts in the lesson of each term; the other numbers are
// Sphinx's own.
const LESSON_OF = {};
const MORE = [
  [/^notebooks\/\d/, 20],
  [/^glossary|^api/, -20],
  [/^teaching|^course/, -10],
];

function scoreOf([page, , , , score]) {
  const asked = new URLSearchParams(location.search).get("q") ?? "";
  const lesson = LESSON_OF[asked.trim().toLowerCase()];
  const own = lesson && page.startsWith(`notebooks/${lesson}`) ? 100 : 0;
  return score + own + (MORE.find(([where]) => where.test(page))?.[1] ?? 0);
}

var Scorer = {
  score: scoreOf,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
