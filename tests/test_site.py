"""The sidebar holds every page, and the adapter from Quarto's Markdown to MyST does what Quarto does."""
import configparser, importlib.util, json, re
from pathlib import Path

import pytest, yaml

# by path: a plain `import site` gives Python's own module of that name
_spec = importlib.util.spec_from_file_location('site_tool', Path(__file__).parents[1] / 'tools' / 'build_site.py')
site = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(site)


@pytest.fixture
def project(tmp_path):
    "Two pages, both in the sidebar."
    for nb in ('index.ipynb', 'experiments/naive.ipynb', '_draft.ipynb'):
        (tmp_path/'nbs'/nb).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path/'nbs'/nb).write_text(json.dumps(dict(cells=[], metadata={}, nbformat=4, nbformat_minor=5)))
    sections = [dict(section='Start here', contents=['index.ipynb']),
                dict(section='Experiments', contents=[dict(href='experiments/naive.ipynb', text='Naive')])]
    (tmp_path/'_quarto.yml').write_text(yaml.dump(dict(website=dict(sidebar=dict(contents=sections)))))
    (tmp_path/'nbs'/'_quarto.yml').symlink_to('../_quarto.yml')
    return tmp_path


def page(src='00_model.ipynb', **kw): return site.Page(src, None, {'output-file': src.split('_', 1)[1].replace('ipynb', 'html')}, **kw)


def test_sidebar_of_this_project(): assert site.check_sidebar() == []


def test_config_agrees_with_settings():
    ini = configparser.ConfigParser(interpolation=None)
    ini.read(site.ROOT/'settings.ini')
    quarto = yaml.safe_load((site.ROOT/'_quarto.yml').read_text())
    assert quarto['website']['title'] == ini['DEFAULT']['title']
    assert quarto['website']['repo-subdir'] == ini['DEFAULT']['nbs_path']
    assert 'nbdev.yml' in quarto['metadata-files']


def test_sidebar_good(project):
    assert site.check_sidebar(project) == []
    assert site.sidebar(project)[1] == ('Experiments', [('experiments/naive.ipynb', 'Naive')])


def test_sidebar_names_what_is_missing(project):
    (project/'nbs'/'experiments'/'naive.ipynb').rename(project/'nbs'/'02_new.ipynb')
    problems = '\n'.join(site.check_sidebar(project))
    assert 'nbs/experiments/naive.ipynb does not exist' in problems
    assert 'nbs/02_new.ipynb is not in the sidebar' in problems


def test_sidebar_wants_the_symlink(project):
    (project/'nbs'/'_quarto.yml').unlink()
    (project/'nbs'/'_quarto.yml').write_text((project/'_quarto.yml').read_text())
    assert 'symlink' in site.check_sidebar(project)[0]


def test_equations_and_references():
    p = page(numbers={'fig-x': 'Figure 2'})
    assert site.to_myst('$$\na\n$$ {#eq-a}', p) == '$$\na\n$$ (model-eq-a)'
    assert site.to_myst('See @eq-a, @fig-x and [-@fig-x].', p) == 'See {eq}`model-eq-a`, [Figure 2](#model-fig-x) and [2](#model-fig-x).'
    assert site.to_myst('`@fig-x` and a@fig-x.org', p) == '`@fig-x` and a@fig-x.org'
    with pytest.raises(site.SiteError, match='fig-y'): site.to_myst('@fig-y', p)


def test_callouts_nest():
    text = site.to_myst('::: {.callout-note}\n## Title $x$\nouter\n\n::: {.callout-tip}\ninner\n:::\n:::', page())
    assert '::::{admonition} Title $x$\n:class: note' in text and '\n:::{admonition} Tip\n:class: tip\n\ninner\n:::' in text
    with pytest.raises(site.SiteError, match='not closed'): site.to_myst('::: {.callout-note}\nbody', page())


def test_links():
    model, naive = page(anchors={'hmmop'}, numbers={'fig-x': 'Figure 1'}), page('experiments/1_naive.ipynb')
    naive.meta['output-file'] = 'naive.html'
    pages = {p.src: p for p in (model, naive)}
    relink = lambda text, p: site.relink(text, p, pages, 'https://host/base')
    assert relink('[`HMMOP.sample`](https://host/base/model.html#hmmop.sample)', naive) == '[`HMMOP.sample`](/model.ipynb#hmmop)'
    assert relink('[`gone`](https://host/base/model.html#gone)', naive) == '`gone`'
    assert relink('[a](../00_model.ipynb#fig-x) [b](../model.html)', naive) == '[a](#model-fig-x) [b](/model.ipynb)'
    assert relink('[a](../00_model.ipynb#eq-x)', naive) == '<a href="../model.html#equation-model-eq-x">a</a>'
    assert relink('[a](https://elsewhere.org/x.html)', model) == '[a](https://elsewhere.org/x.html)'
    with pytest.raises(site.SiteError, match='none.ipynb'): relink('[a](none.ipynb)', model)


def test_show_doc():
    text = site.show_doc('---\n\n[source](https://x/y.py#L1){target="_blank" style="float:right"}\n\n### thin\n\n```python\ndef thin(\n'
                         '    T:ndarray, # Chain $P(x|y)$\n    psi:float=0.5, # Omission\n    rng:NoneType=None\n)->ndarray: # Observed chain\n'
                         '```\n\n*Thin.*')
    assert '### thin\n\n[source](https://x/y.py#L1){.source-link}\n\n```python\nthin(T, psi=0.5, rng=None)\n```' in text
    assert '| `T` | `ndarray` |  | Chain $P(x\\|y)$ |' in text and '| Returns | `ndarray` |  | Observed chain |' in text
    assert 'NoneType' not in text


def test_show_doc_tells_keywords_and_fields():
    "nbdev leaves out the comments beside **keywords and the fields of a tuple: they come from the code."
    block = lambda name, module, code: site.show_doc(f'---\n\n[source](https://x/blob/main/{module}.py#L1){{target="_blank"}}\n\n### {name}\n\n```python\n{code}\n```\n\n*Said.*')
    text = block('fit_random', 'hmmop_nb/known_gaps', 'def fit_random(\n    sequences, # Lists\n    **known\n):')
    assert re.search(r'\| `\*\*known` \|.*Further keywords of .*`fit_known`', text), text
    assert 'fit_random(sequences, **known)' in text
    text = block('fit_em', 'hmmop_nb/em', 'def fit_em(\n    sequences, # Lists\n    prior:Prior=Prior(T=array(1.)), # Beliefs\n):')
    assert 'fit_em(sequences, *, prior=Prior())' in text
    text = block('Experiment', 'hmmop_nb/experiments', 'def Experiment(\n    name:str, figure:str\n)->None:')
    assert re.search(r'\| `figure` \|.*Where it is in the paper \|', text), text


def test_show_doc_tells_what_a_field_is_made_of():
    "nbdev writes `<factory>` for a default that is made anew each time, which is no Python."
    code = 'def Posterior(\n    T:ndarray, # Transition matrices\n    extra:dict=<factory>, # Other quantities\n)->None:'
    shown = lambda module: site.show_doc(f'---\n\n[source](https://x/blob/main/{module}.py#L1){{target="_blank"}}\n\n### Posterior\n\n```python\n{code}\n```\n\n*Draws.*')
    text = shown('hmmop_nb/posterior')
    assert 'factory' not in text and '->None' not in text and 'extra=dict()' in text and "family='custom'" in text, text
    assert re.search(r'\| `info` \| `dict` \| `dict\(\)` \| How the draws were made', text), text
    assert '| `extra` | `dict` | `...` | Other quantities |' in shown('hmmop_nb/model'), 'where the code is not found'


def test_source_of_the_page_itself():
    "Two modules have a `score`; the page on inference links its own."
    text = '---\n\n[source](https://x/blob/main/hmmop_nb/estimator.py#L9){target="_blank"}\n\n### score\n\n```python\ndef score(model):\n```\n\n*Said.*'
    assert re.search(r'/hmmop_nb/inference\.py#L\d+\)', site.own_source(text, 'inference'))
    assert site.own_source(text, 'estimator') == site.own_source(text, 'tutorials/weather') == text


def test_slug_is_pandocs():
    assert [site.slug(s) for s in ('HMMOP.sample', '1. What `x` says!', 'plot_omission')] == ['hmmop.sample', 'what-x-says', 'plot_omission']
