"""Lesson 07's runs on embeddings run at toy size, with the lesson's own code."""

import json

from benchmarks.lessons import l07_embeddings as embeddings

BOTH = {"1.7 and 1.7", "1 and 0.125", "64 and 8", "8 and 0.125"}


def test_the_embeddings_are_measured_and_written(tmp_path, capsys):
    embeddings.main(["--smoke", "--output", str(tmp_path)])
    result = json.loads((tmp_path / "l07_embeddings.json").read_text())
    assert result["smoke"] and {"hardware", "versions", "commit"} <= set(result)
    found = {(row["experiment"], row["name"]) for row in result["rows"]}
    factors = {(kind, str(f)) for kind in ("learnt", "frozen") for f in embeddings.FACTORS}
    factors |= {(f"{kind}, longer", name) for kind, name in factors}
    assert factors <= found and ("first tables", "shuffled") in found
    assert {row[1] for row in found if row[0] == "frozen, both"} == BOTH
    names = ("tied", "copied", "untied")
    assert {(f"after {n}", name) for n in (2, 4, 6) for name in names} <= found
    assert {("tied, longer", str(factor)) for factor in embeddings.FACTORS} <= found
    kinds = ("bugs", "bugs, first loss")
    assert {(kind, bug) for kind in kinds for bug in embeddings.BUGS} <= found
    assert all(0 < row["loss"] < 100 and row["length"] > 0 for row in result["rows"])
    assert "| same start | 4 × 2 |" in capsys.readouterr().out


def test_positions_are_as_long_as_asked():
    small = embeddings.lesson()["small_model"]
    sizes = [embeddings.placed(small(8, 1), f).positions.table.norm(dim=1)[3] for f in (1, 0.125)]
    assert sizes == [32**0.5, 32**0.5 / 8]


def test_a_table_is_copied_or_shuffled_and_frozen():
    code = embeddings.lesson()
    first = [t.detach().clone() for t in embeddings.tables_of(code["small_model"](8, 1))]
    same = embeddings.with_tables(code["small_model"](8, 2), first, 0, shuffled=False)
    other = embeddings.with_tables(code["small_model"](8, 2), first, 0, shuffled=True)
    for table, copy, shuffled in zip(
        first, embeddings.tables_of(same), embeddings.tables_of(other), strict=True
    ):
        assert table.equal(copy) and not table.equal(shuffled)
        assert table.sum(dim=1).sort()[0].equal(shuffled.sum(dim=1).sort()[0])
    assert not any(t.requires_grad for t in embeddings.tables_of(embeddings.frozen(same)))


def test_three_copies_start_equal_and_are_three():
    code = embeddings.lesson()
    model = embeddings.copied(code["small_model"](8, 0, tied=True))
    three = [*embeddings.tables_of(model), model.generator.weight]
    assert len({id(table) for table in three}) == 3
    assert len({table.data_ptr() for table in three}) == 3
    assert all(table.equal(three[0]) and table.requires_grad for table in three)


def test_the_baseline_knows_only_the_place():
    fixed = [([5], [7, 8]), ([6], [7, 8])]
    coin = [([5], [7]), ([6], [8])]
    assert embeddings.place_only(fixed) == 0
    assert abs(embeddings.place_only(coin) - 0.6931) < 1e-3
