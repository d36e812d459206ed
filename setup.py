"Build hmmop_nb; every fact about the package lives in settings.ini."
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent


def read(name):
    "The text of a file beside this one; stop with a remedy where it is missing."
    path = HERE / name
    if path.is_file(): return path.read_text(encoding="utf-8")
    raise SystemExit(f"setup.py: {name} is missing from {HERE}, and the package cannot be built "
                     f"without it; take a complete copy of the repository, or an sdist made with "
                     f"its MANIFEST.in")


parser = ConfigParser(delimiters=["="], interpolation=None)
parser.read_string(read("settings.ini"), source="settings.ini")
cfg = parser["DEFAULT"]
extras = {key.removesuffix("_requirements"): value.split()
          for key, value in cfg.items() if key.endswith("_requirements")}

setup(
    name=cfg["lib_name"],
    version=cfg["version"],
    description=cfg["description"],
    long_description=read("README.md"),
    long_description_content_type="text/markdown",
    keywords=cfg["keywords"],
    author=cfg["author"],
    author_email=cfg["author_email"],
    url=cfg["git_url"],
    # an expression instead of a classifier, which setuptools has given up
    license_expression="Apache-2.0",
    license_files=["LICENSE"],
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        *(f"Programming Language :: Python :: {python}" for python in cfg["pythons"].split()),
        "Topic :: Scientific/Engineering",
    ],
    packages=find_packages(include=["hmmop_nb", "hmmop_nb.*"]),
    package_data={"hmmop_nb": ["data/*", "py.typed"]},
    python_requires=f">={cfg['min_python']}",
    install_requires=cfg["requirements"].split(),
    extras_require=extras,
    entry_points={"nbdev": [f"{cfg['lib_name']}={cfg['lib_name']}._modidx:d"]},
    zip_safe=False,
)
