"The sidebar holds every page, and the adapter to MyST makes of Quarto's Markdown what Quarto does."
import configparser
import json
import re
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'tools'))
import build_site as site


@pytest.fixture
def project(tmp_path):
    "Three pages, all in the sidebar; two of them are the first of their folder."
    empty = json.dumps(dict(cells=[], metadata={}, nbformat=4, nbformat_minor=5))
    for nb in ('index.ipynb', 'experiments/index.ipynb', 'experiments/naive.ipynb', '_draft.ipynb'):
        (tmp_path/'nbs'/nb).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path/'nbs'/nb).write_text(empty)
    naive = dict(href='experiments/naive.ipynb', text='Naive')
    sections = [dict(section='Start here', contents=['index.ipynb']),
                dict(section='Experiments', contents=['experiments/index.ipynb', naive])]
    config = dict(website=dict(sidebar=dict(contents=sections)))
    (tmp_path/'_quarto.yml').write_text(yaml.dump(config))
    (tmp_path/'nbs'/'_quarto.yml').symlink_to('../_quarto.yml')
    return tmp_path


def page(src='00_model.ipynb', **known):
    "A page as nbdev would name it: without the number of its notebook."
    name = re.sub(r'^\d+_', '', Path(src).stem)
    return site.Page(src, None, {'output-file': f'{name}.html'}, **known)


def block(name, code, source='', doc='*Said.*'):
    "What nbdev's show_doc prints."
    link = f'[source]({source}){{target="_blank" style="float:right"}}\n\n' if source else ''
    return f'---\n\n{link}### {name}\n\n```python\n{code}\n```\n\n{doc}'


def in_package(module): return f'https://x/blob/main/hmmop_nb/{module}.py#L1'


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
    pages = [('experiments/index.ipynb', None), ('experiments/naive.ipynb', 'Naive')]
    assert site.sidebar(project)[1] == ('Experiments', pages)


def test_sidebar_names_what_is_missing(project):
    (project/'nbs'/'experiments'/'naive.ipynb').rename(project/'nbs'/'02_new.ipynb')
    problems = '\n'.join(site.check_sidebar(project))
    assert 'nbs/experiments/naive.ipynb does not exist' in problems
    assert 'nbs/02_new.ipynb is not in the sidebar' in problems


def test_sidebar_wants_the_symlink(project):
    (project/'nbs'/'_quarto.yml').unlink()
    (project/'nbs'/'_quarto.yml').write_text((project/'_quarto.yml').read_text())
    assert 'symlink' in site.check_sidebar(project)[0]


def test_sidebar_becomes_toctrees(project):
    "Only the first page of the site is the toctree's own; folders have first pages like any other."
    pages = {src: page(src) for src in
             ('index.ipynb', 'experiments/index.ipynb', 'experiments/naive.ipynb')}
    first, second = site.toctrees(project, pages).split('\n\n```')
    assert first.splitlines()[-2:] == ['self', '```'] and ':caption: Start here' in first
    assert second.splitlines()[-3:] == ['/experiments/index', 'Naive </experiments/naive>', '```']


def test_equations_and_references():
    p = page(numbers={'fig-x': 'Figure 2'})
    assert site.to_myst('$$\na\n$$ {#eq-a}', p) == '$$\na\n$$ (model-eq-a)'
    assert (site.to_myst('See @eq-a, @fig-x and [-@fig-x].', p)
            == 'See {eq}`model-eq-a`, [Figure 2](#model-fig-x) and [2](#model-fig-x).')
    assert site.to_myst('`@fig-x` and a@fig-x.org', p) == '`@fig-x` and a@fig-x.org'
    with pytest.raises(site.SiteError, match='fig-y'): site.to_myst('@fig-y', p)


def test_callouts_nest():
    text = site.to_myst('::: {.callout-note}\n## Title $x$\nouter\n\n'
                        '::: {.callout-tip}\ninner\n:::\n:::', page())
    assert '::::{admonition} Title $x$\n:class: note' in text
    assert '\n:::{admonition} Tip\n:class: tip\n\ninner\n:::' in text
    with pytest.raises(site.SiteError, match='not closed'):
        site.to_myst('::: {.callout-note}\nbody', page())


def test_links():
    model = page(anchors={'hmmop'}, numbers={'fig-x': 'Figure 1'})
    naive = page('experiments/1_naive.ipynb')
    pages = {p.src: p for p in (model, naive)}
    def relink(text, page): return site.relink(text, page, pages, 'https://host/base')
    assert (relink('[`HMMOP.sample`](https://host/base/model.html#hmmop.sample)', naive)
            == '[`HMMOP.sample`](/model.ipynb#hmmop)')
    assert relink('[`gone`](https://host/base/model.html#gone)', naive) == '`gone`'
    assert (relink('[a](../00_model.ipynb#fig-x) [b](../model.html)', naive)
            == '[a](#model-fig-x) [b](/model.ipynb)')
    assert (relink('[a](../00_model.ipynb#eq-x)', naive)
            == '<a href="../model.html#equation-model-eq-x">a</a>')
    assert (relink('[a](https://elsewhere.org/x.html)', model)
            == '[a](https://elsewhere.org/x.html)')
    with pytest.raises(site.SiteError, match='none.ipynb'): relink('[a](none.ipynb)', model)


def test_links_between_folders_with_first_pages():
    "Every folder may have an index; a link to a folder leads there."
    names = ('index.ipynb', '00_model.ipynb', 'engine/index.ipynb', 'engine/random.ipynb',
             'lab/index.ipynb')
    pages = {name: page(name) for name in names}
    def relink(text, src): return site.relink(text, pages[src], pages, 'https://host/base')
    assert pages['engine/index.ipynb'].doc == 'engine/index'
    assert relink('[a](index.ipynb)', 'engine/random.ipynb') == '[a](/engine/index.ipynb)'
    assert relink('[a](../index.ipynb)', 'engine/random.ipynb') == '[a](/index.ipynb)'
    assert relink('[a](../lab/index.ipynb)', 'engine/index.ipynb') == '[a](/lab/index.ipynb)'
    assert relink('[a](engine/)', '00_model.ipynb') == '[a](/engine/index.ipynb)'
    assert relink('[a](https://host/base/lab/)', '00_model.ipynb') == '[a](/lab/index.ipynb)'
    assert relink('[a](https://host/base/)', 'lab/index.ipynb') == '[a](/index.ipynb)'
    assert len({p.target('fig-map') for p in pages.values()}) == 5, 'labels stay apart'


def test_show_doc():
    code = ('def thin(\n    T:ndarray, # Chain $P(x|y)$\n    psi:float=0.5, # Omission\n'
            '    rng:NoneType=None\n)->ndarray: # Observed chain')
    text = site.show_doc(block('thin', code, 'https://x/y.py#L1'))
    assert ('### thin\n\n[source](https://x/y.py#L1){.source-link}\n\n'
            '```python\nthin(T, psi=0.5, rng=None)\n```') in text
    assert '| `T` | `ndarray` |  | Chain $P(x\\|y)$ |' in text
    assert '| Returns | `ndarray` |  | Observed chain |' in text
    assert 'NoneType' not in text


def test_show_doc_tells_keywords_and_fields():
    "nbdev leaves out comments beside **keywords and of the fields of a tuple: the code has them."
    code = 'def fit_random(\n    sequences, # Lists\n    **known\n):'
    text = site.show_doc(block('fit_random', code, in_package('known_gaps')))
    assert re.search(r'\| `\*\*known` \|.*Further keywords of .*`fit_known`', text), text
    assert re.search(r'fit_random\(\s*sequences,.*\*\*known\)', text, re.S)
    code = 'def fit_em(\n    sequences, # Lists\n    prior:Prior=Prior(T=array(1.)), # Beliefs\n):'
    text = site.show_doc(block('fit_em', code, in_package('em')))
    assert re.search(r'fit_em\(\s*sequences,\s*\*,.*prior=Prior\(\),', text, re.S), text
    code = 'def Experiment(\n    name:str, figure:str\n)->None:'
    text = site.show_doc(block('Experiment', code, in_package('experiments')))
    assert re.search(r'\| `figure` \|.*Where it is in the paper \|', text), text


def test_show_doc_tells_what_a_field_is_made_of():
    "nbdev writes `<factory>` for a default that is made anew each time, which is no Python."
    code = ('def Posterior(\n    T:ndarray, # Transition matrices\n'
            '    extra:dict=<factory>, # Other quantities\n)->None:')
    text = site.show_doc(block('Posterior', code, in_package('engine/posterior')))
    assert 'factory' not in text and '->None' not in text, text
    assert 'extra=dict()' in text and 'family="custom"' in text, text
    assert re.search(r'\| `info` \| `dict[^`]*` \| `dict\(\)` \| How .* made', text), text
    unfound = site.show_doc(block('Posterior', code, in_package('transforms')))
    assert '| `extra` | `dict` | `...` | Other quantities |' in unfound


def test_show_doc_of_a_class_without_parameters():
    text = site.show_doc(block('SiteError', 'def SiteError(\n    *args, **kwargs\n):'))
    assert 'SiteError(*args, **kwargs)' in text, 'not in the package: as nbdev has it'
    code = 'def SamplingWarning(\n    *args, **kwargs\n):'
    text = site.show_doc(block('SamplingWarning', code, in_package('engine/driver')))
    assert 'class SamplingWarning(RuntimeWarning)' in text and 'args' not in text


def test_show_doc_does_not_tell_the_parameters_twice():
    "`help()` needs them in the docstring, the page has a table."
    doc = '*Thin.*\n\nParameters\n----------\nT\n    Chain\n\nReturns\n-------\n    Observed chain'
    code = 'def thin_it(\n    T, # Chain\n): # Observed chain'
    text = site.show_doc(block('thin_it', code, doc=doc))
    assert '*Thin.*' in text and '| `T` | Chain |' in text
    assert '-------' not in text and text.count('Observed chain') == 1


def test_source_of_the_page_itself():
    "Two modules may have the same name; a page links that of its own module."
    wrong = block('decode', 'def decode(model):', 'https://x/blob/main/hmmop_nb/fit.py#L9')
    assert site.module_of('inference') == 'hmmop_nb.inference'
    assert site.module_of('engine/help') == 'hmmop_nb.engine.help'
    assert site.module_of('reference/estimator') == 'hmmop_nb.estimator'
    assert site.module_of('tutorials/weather') is None
    assert re.search(r'/hmmop_nb/inference\.py#L\d+\)', site.show_doc(wrong, 'inference'))
    own = in_package('inference').replace('#L1', '#L9')
    right = block('decode', 'def decode(model):', own)
    for doc in ('inference', 'estimator', 'tutorials/weather'):
        assert own in site.show_doc(right, doc)


def test_slug_is_pandocs():
    titles = ('HMMOP.sample', '1. What `x` says!', 'plot_omission')
    assert [site.slug(s) for s in titles] == ['hmmop.sample', 'what-x-says', 'plot_omission']
