"The sidebar holds every page, and the adapter to MyST makes of Quarto's Markdown what Quarto does."
import configparser
import json
import posixpath
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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


def test_links_find_the_heading_of_a_method():
    "nbdev links `#summary`; the heading is that of `Posterior.summary`."
    goal = page('engine/posterior.ipynb', anchors={'posterior', 'posterior.summary', 'as_given'})
    anchors = {'summary': 'posterior.summary', 'posterior.summary': 'posterior.summary',
               'posterior.hidden': 'posterior', 'as_given': 'as_given', 'gone': None}
    for asked, found in anchors.items(): assert site.find_anchor(asked, goal) == found, asked
    two = page(anchors={'a.fit', 'b.fit'})
    assert site.find_anchor('fit', two) is None, 'two methods of one name: no guess'


def code(source, *outputs, options=''):
    "A code cell with outputs of the given kinds."
    import nbformat.v4 as v4
    shown = [v4.new_output('display_data', {kind: 'x'}) for kind in outputs]
    return v4.new_code_cell(options + source, outputs=shown)


def test_folded_code_says_what_it_is():
    assert site.fold_label(code('import a\nfrom b import (\n  c)')) == 'Imports'
    assert site.fold_label(code('fig = 1', 'image/png')) == 'Code of the picture'
    assert site.fold_label(code('Markdown(x)', 'text/markdown')) == 'Code of the table'
    assert site.fold_label(code('x = 1\ntest_eq(x, 1)')) == 'Checks'
    assert site.fold_label(code('def f(): pass\nclass G: pass')) == 'Code: f, G'
    cell = code('fig = 1', 'image/png', options='#| code-fold: true\n#| fig-cap: "A $T$ and `x`"\n')
    site.mend_cell(cell, page())
    assert site.read_options(cell, page()) == {
        'code-fold': True, 'fig-cap': 'A $T$ and `x`', 'fig-alt': 'A T and x',
        'code-summary': 'Code of the picture'}
    assert cell.source.endswith('\nfig = 1')


@pytest.fixture(scope='module')
def sources(tmp_path_factory):
    "What Quarto would read, for every page of this tree: nbdev's notebooks, mended."
    copy = tmp_path_factory.mktemp('sources')
    for name in ('settings.ini', 'setup.py', '_quarto.yml'): shutil.copy(site.ROOT/name, copy)
    ignored = shutil.ignore_patterns('__pycache__', '.ipynb_checkpoints', '*.csv')
    shutil.copytree(site.ROOT/'nbs', copy/'nbs', symlinks=True, ignore=ignored)
    shutil.copytree(site.ROOT/'hmmop_nb', copy/'hmmop_nb', ignore=ignored)
    command = [sys.executable, site.ROOT/'tools'/'build_site.py', 'sources', '--root', copy]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left = sorted(path.name for path in copy.iterdir())
    assert left == ['_proc', '_quarto.yml', 'hmmop_nb', 'nbs', 'settings.ini', 'setup.py']
    pages = site.read_pages(copy/'_proc')
    return {src: page for src, page in pages.items() if not src.startswith('_')}


def walk(tree):
    "All elements of pandoc's tree."
    if isinstance(tree, dict):
        yield tree
        for part in tree.values(): yield from walk(part)
    elif isinstance(tree, list):
        for part in tree: yield from walk(part)


def visible(page):
    "Cells that are shown, with their options."
    for cell in page.nb.cells:
        opts = site.read_options(cell, page) if cell.cell_type == 'code' else {}
        if cell.cell_type != 'raw' and not site.off(opts.get('include')): yield cell, opts


@pytest.fixture(scope='module')
def trees(sources):
    "Every page as pandoc, which is what Quarto stands on, reads its Markdown."
    pypandoc = pytest.importorskip('pypandoc')

    def parse(page):
        texts = [text for cell, opts in visible(page)
                 for text in site.written_markdown(cell, opts)]
        return json.loads(pypandoc.convert_text('\n\n'.join(texts), 'json', 'markdown'))

    with ThreadPoolExecutor(2) as pool: return dict(zip(sources, pool.map(parse, sources.values())))


ATTRIBUTED = dict(Header=1, Div=0, Span=0, CodeBlock=0, Code=0, Figure=0, Table=0, Image=0, Link=0)


def ids(tree, page):
    "Anchors that Quarto's page will have."
    found = {element['c'][ATTRIBUTED[element['t']]][0] for element in walk(tree)
             if element.get('t') in ATTRIBUTED}
    labels = {str(opts.get('label')) for _, opts in visible(page) if 'label' in opts}
    equations = {label for cell, opts in visible(page) for text in site.written_markdown(cell, opts)
                 for label in re.findall(r'\{#([\w-]+)\}', text)}
    return found | labels | equations


def test_every_link_of_every_page_leads_somewhere(sources, trees):
    anchors = {src: ids(tree, sources[src]) for src, tree in trees.items()}
    ours, lost, followed = 'https://hmmop-nb.github.io/hmmop_nb', [], 0
    for src, tree in trees.items():
        for element in walk(tree):
            if element.get('t') != 'Link': continue
            path, _, anchor = element['c'][2][0].partition('#')
            if path.startswith(ours): lost.append(f'{src}: {path} is not local')
            if re.match(r'[a-z]+:', path): continue
            goal = posixpath.normpath(posixpath.join(posixpath.dirname(src), path)) if path else src
            followed += 1
            if goal.endswith('.ipynb') and goal not in sources: lost.append(f'{src}: no page {goal}')
            elif anchor and goal in sources and anchor not in anchors[goal]:
                lost.append(f'{src}: {goal} has no anchor {anchor}')
    assert followed > 1000 and not lost, '\n'.join(lost)


def test_code_blocks_hold_code(trees):
    "No Markdown inside, and no type that nbdev made up from a default."
    wrong = [f'{src}: {element["c"][1][:60]}' for src, tree in trees.items() for element in walk(tree)
             if element.get('t') == 'CodeBlock' and re.search(r'\]\(http|NoneType', element['c'][1])]
    assert not wrong, '\n'.join(wrong)


def test_signatures_tell_what_they_return(sources):
    blocks = [text for cell, opts in visible(sources['01_transforms.ipynb'])
              for text in site.written_markdown(cell, opts)]
    thin = next(text for text in blocks if re.match('#+ thin\n', text))
    assert re.search(r'\| Returns \|.*Transition matrix of the observed chain', thin), thin


def words(tree):
    "What is read, whatever it is set in."
    kept = dict(Str=lambda c: c, Code=lambda c: c[1], Math=lambda c: c[1], Space=lambda c: ' ')
    return ''.join(kept[e['t']](e.get('c')) for e in walk(tree) if e.get('t') in kept)


def test_headings_differ(trees):
    for src, tree in trees.items():
        heads = [words(e['c'][2]) for e in walk(tree) if e.get('t') == 'Header']
        twice = sorted({head for head in heads if heads.count(head) > 1})
        assert not twice, f'{src}: {twice}'


def test_pictures_have_words_and_folds_have_labels(sources):
    for src, page in sources.items():
        for cell, opts in visible(page):
            if cell.cell_type != 'code': continue
            where = f'{src}: {cell.source[:80]}'
            if site.has_picture(cell): assert len(str(opts.get('fig-alt', ''))) > 10, where
            if opts.get('code-fold') in (True, 'true'): assert opts.get('code-summary'), where
            for o in cell.outputs:
                images = re.findall('<img[^>]*>', o.get('data', {}).get('text/html', ''))
                assert all('alt="' in image for image in images), where


def test_words_come_before_code(sources):
    for src, page in sources.items():
        shown = (cell for cell, opts in visible(page) if cell.cell_type == 'markdown'
                 or cell.outputs or not site.off(opts.get('echo')))
        assert next(shown).cell_type == 'markdown', src


def test_quarto_is_told_what_the_reader_needs():
    quarto = yaml.safe_load((site.ROOT/'_quarto.yml').read_text())['format']['html']
    assert quarto['respect-user-color-scheme'] is True
    assert quarto['code-overflow'] == 'wrap', 'no block is cut'
    styles = (site.ROOT/'nbs'/'styles.css').read_text()
    for rule in ('span.math.display, p > span[id^="eq-"]', 'main table.table col',
                 'body.quarto-dark', '.cell-output-stdout pre'): assert rule in styles, rule
    ignored = (site.ROOT/'.gitignore').read_text().split()
    assert {'/index_files/', '_proc/', '_docs/', 'nbs/nbdev.yml'} <= set(ignored)


def test_tutorials_can_be_run_elsewhere(sources):
    for src, page in sources.items():
        texts = '\n'.join(cell.source for cell in page.nb.cells if cell.cell_type == 'markdown')
        story = src.startswith('tutorials/') and not src.endswith('index.ipynb')
        assert (f'labpath=nbs/{src})' in texts and f'blob/main/nbs/{src})' in texts) == story, src


def test_three_paths_lead_through_the_site(sources):
    paths = site.reading_paths(sources)
    assert list(paths) == ['I have data', 'I want the mathematics', 'I want to change the code']
    for title, path in paths.items():
        assert len(path) >= 10 and len(set(path)) == len(path) and set(path) <= set(sources), title
        for before, after in zip(path, path[1:]):
            foot = {src: sources[src].nb.cells[-1].source for src in (before, after)}
            on, back = (posixpath.relpath(b, posixpath.dirname(a) or '.')
                        for a, b in ((before, after), (after, before)))
            assert re.search(rf'\({re.escape(on)}\) →', foot[before]), (before, foot[before])
            assert re.search(rf'← \[[^]]*\]\({re.escape(back)}\)', foot[after]), (after, foot[after])


LIVE = """
require('node:vm').runInThisContext(require('node:fs').readFileSync(process.argv[1], 'utf8'))
const { thin, unthin, nearestStochastic, gapLaw, l1 } = globalThis.hmmop
const cases = JSON.parse(require('node:fs').readFileSync(0, 'utf8'))
console.log(JSON.stringify(cases.map(({ T, psi, rows }) => ({ thin: thin(T, psi),
  back: unthin(thin(T, psi), psi), near: nearestStochastic(rows), gaps: gapLaw(T, psi, 6),
  l1: l1(thin(T, psi), T) }))))
"""


def test_explorers_of_the_page_compute_what_python_does():
    import numpy as np
    import hmmop_nb as hm
    from hmmop_nb.gaps import gap_law
    if not shutil.which('node'): pytest.skip('no Node.js here; the browser check does the same')
    rng, cases = np.random.default_rng(0), []
    for n in (2, 4, 9):
        for psi in (0., .6, rng.uniform(0, .9, n)):
            cases.append(dict(T=rng.dirichlet(np.full(n, .5), n), psi=psi,
                              rows=rng.normal(size=(n, n))))
    script = site.ROOT/'tools'/'live.js'
    told = json.dumps(cases, default=lambda x: x.tolist())
    done = subprocess.run(['node', '-e', LIVE, script], input=told, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for case, found in zip(cases, json.loads(done.stdout)):
        T, psi, rows = case['T'], case['psi'], case['rows']
        R = hm.thin(T, psi)
        wanted = dict(thin=R, back=T, near=hm.nearest_stochastic(rows), gaps=gap_law(T, psi, 6),
                      l1=hm.l1_distance(R, T))
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, atol=1e-10, rtol=0, err_msg=name)


def test_of_mixed_cells_only_the_imports_are_run():
    "nbdev runs cells that import, for the sake of `show_doc`; other code in them needs cells that it did not run."
    from build_site import mixed_imports
    from nbformat.v4 import new_code_cell, new_markdown_cell
    def imports(source, **directives):
        cell = new_code_cell(source)
        cell.directives_ = directives
        return mixed_imports(cell)
    assert imports("import numpy as np\nfrom a import b\nx = np.ones(3)") == "import numpy as np\nfrom a import b"
    assert imports("def f():\n    import json\n    return folder") == "" # nothing of it is needed
    assert imports("import numpy as np") is None and imports("x = 1") is None # as nbdev does it
    assert imports("import numpy as np\nx = 1", export=[]) is None
    assert imports("from a import f\nshow_doc(f)") is None
    assert imports("%pip install x\nimport x") is None
    assert mixed_imports(new_markdown_cell("import this")) is None
