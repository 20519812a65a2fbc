"""Lets JupyterLab take the course's custom.css from this folder.

JupyterLab finds the folder through JUPYTER_CONFIG_PATH, which `transformer-course lab` sets, and
reads this file with its settings as `c`. In labconfig/ is what the menu Settings can change again.
"""

from pathlib import Path

c.LabApp.custom_css = True
c.ServerApp.tornado_settings = {"static_custom_path": [str(Path(__file__).parent)]}
