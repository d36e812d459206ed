"""Build the documentation site, or check its sidebar.

    python tools/build_site.py build
    python tools/build_site.py sources   # only what Quarto would read, in _proc/
    python tools/build_site.py sidebar

nbdev processes the notebooks, `mend` puts right what it leaves wrong (signatures, links, labels of
folded code, words for pictures), and `quarto` renders them if it is on the PATH. Without it the same
notebooks go through a small adapter, from Quarto's Markdown to MyST, and Sphinx renders them. Both
read the sidebar from `_quarto.yml`.
"""
import argparse, ast, configparser, importlib, inspect, json, os, posixpath, re, shutil, subprocess, sys
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the package of this tree, whatever is installed
from hmmop_nb.engine.help import read_docments, read_signature, written_doc


def sidebar(root=ROOT):
    "Sections of the sidebar as `(title, [(notebook, text or None), ...])`, in order."
    config = yaml.safe_load((Path(root)/'_quarto.yml').read_text())

    def entries(items):
        for o in items:
            if isinstance(o, str): yield o, None
            elif 'section' in o:
                own = [o['href']] if 'href' in o else []
                yield from entries(own + o.get('contents', []))
            else: yield o['href'], o.get('text')

    return [(o.get('section') if isinstance(o, dict) else None, list(entries([o])))
            for o in config['website']['sidebar']['contents']]


def check_sidebar(root=ROOT):
    "What is wrong with the sidebar, one line each: Quarto is silent about pages it cannot reach."
    root, nbs = Path(root), Path(root)/'nbs'
    listed = [nb for _, pages in sidebar(root) for nb, _ in pages]
    files = {p.relative_to(nbs).as_posix() for p in nbs.rglob('*.ipynb')
             if not any(part[0] in '_.' for part in p.relative_to(nbs).parts)}
    twice = sorted({nb for nb in listed if listed.count(nb) > 1})
    problems = [f'_quarto.yml lists {nb}, but nbs/{nb} does not exist'
                for nb in listed if nb not in files]
    problems += [f'nbs/{nb} is not in the sidebar of _quarto.yml'
                 for nb in sorted(files - set(listed))]
    problems += [f'_quarto.yml lists {nb} more than once' for nb in twice]
    link = nbs/'_quarto.yml'
    if not link.is_symlink() or link.resolve() != (root/'_quarto.yml').resolve():
        problems.append('nbs/_quarto.yml must be a symlink to ../_quarto.yml')
    return problems


class SiteError(Exception): "Something in a notebook that would give a broken page."


@dataclass
class Page:
    src: str                                    # notebook, relative to nbs/
    nb: object                                  # as nbdev processed it
    meta: dict                                  # its front matter
    numbers: dict = field(default_factory=dict) # 'fig-x' -> 'Figure 1'
    anchors: set = field(default_factory=set)   # heading anchors, as Quarto and MyST make them

    @property
    def doc(self):
        "Name without suffix of the built page: nbdev drops the number of the notebook."
        name = self.meta.get('output-file', Path(self.src).name)
        return Path(self.src).with_name(name).with_suffix('').as_posix()

    def target(self, label):
        "Labels are local to a page in Quarto but global in Sphinx."
        return f'{self.doc}-{label}'.replace('/', '-').replace('_', '-').lower()


def read_pages(proc):
    "The processed notebooks below `proc`, by their path relative to it."
    import nbformat
    pages = {}
    for path in sorted(proc.rglob('*.ipynb')):
        nb, src = nbformat.read(path, as_version=4), path.relative_to(proc).as_posix()
        raw = [c.source for c in nb.cells if c.cell_type == 'raw' and c.source.startswith('---')]
        front = raw[0] if raw else ''
        meta = yaml.safe_load(front.strip().strip('-')) or {}
        pages[src] = Page(src, nb, meta)
    docs = [p.doc for p in pages.values()]
    clash = {d for d in docs if docs.count(d) > 1}
    if clash: raise SiteError(f'two notebooks make the same page: {clash}')
    return pages


CODE = re.compile(
    r'^[ \t]*(?P<f>`{3,}|~{3,}).*?^[ \t]*(?P=f)[ \t]*$|(?P<t>`+)(?:(?!\n\n).)+?(?P=t)(?!`)',
    re.M | re.S)
MATH = re.compile(r'\$\$.+?\$\$|(?<![\\$])\$(?!\s)(?:(?!\n\n)[^$])+?(?<![\s\\])\$(?!\d)', re.S)
EQUATION = re.compile(r'(\$\$.+?\$\$)[ \t]*\{#(eq-[\w-]+)\}', re.S)
REF = re.compile(r'(\[-?)?(?<![\w.])@((?:eq|fig|tbl|sec)-\w+(?:-\w+)*)(?(1)\])')
HEADING = re.compile(r'^(#{1,6}) +(.*?)[ \t]*(?:\{([^}]*)\})?[ \t]*$', re.M)
IMAGE = re.compile(r'^!\[(.*?)\]\((\S+?)\)[ \t]*(?:\{([^}]*)\})?[ \t]*$', re.M)
TABLE_CAPTION = re.compile(r'^: (.*?)[ \t]*\{#(tbl-[\w-]+)\}[ \t]*$', re.M)
LINK = re.compile(r'(?<=\]\()([^)\s]+)(?=\))')


class Mask:
    "Hide code and formulas while the Markdown around them changes."
    def __init__(self): self.kept = []

    def hide(self, text, pattern):
        def keep(m):
            self.kept.append(m[0])
            return f'\0{len(self.kept) - 1}\0'
        return pattern.sub(keep, text)

    def show(self, text):
        while '\0' in text: text = re.sub('\0(\\d+)\0', lambda m: self.kept[int(m[1])], text)
        return text


def attributes(text):
    "`#id .class key=value` of a pandoc attribute list, as (id, classes, dict)."
    pair = re.compile(r'([\w-]+)=("[^"]*"|\'[^\']*\'|\S+)')
    pairs = {k: v.strip('"\'') for k, v in pair.findall(text or '')}
    bare = pair.sub('', text or '').split()
    ids = [o[1:] for o in bare if o[0] == '#']
    return ids[0] if ids else None, [o[1:] for o in bare if o[0] == '.'], pairs


def slug(title):
    "Anchor of a heading by pandoc's rule, so that links hold in both builds."
    s = re.sub(r'[^\w\s.-]', '', re.sub(r'\]\([^)]*\)', '', title)).strip().lower()
    return re.sub(r'^[^a-z]+', '', re.sub(r'\s+', '-', s)) or 'section'


def callout(kind, attrs, body):
    "A Quarto callout; its title is the attribute `title` or a heading on its first line."
    _, _, pairs = attributes(attrs)
    body = '\n'.join(body).strip('\n')
    first, _, rest = body.partition('\n')
    title = pairs.get('title')
    if not title and first.startswith('#'): title, body = first.lstrip('# '), rest.strip('\n')
    if pairs.get('collapse') == 'true':
        head = f'<summary class="admonition-title">{title or kind.title()}</summary>'
        return f'<details class="admonition {kind}">{head}\n\n{body}\n\n</details>', 0
    return f'{{admonition}} {title or kind.title()}\n:class: {kind}\n\n{body}', 1


def divs(lines, page):
    "Quarto's `:::` blocks as MyST directives, and how deep they nest: outer fences are longer."
    out, depth, i = [], 0, 0
    while i < len(lines):
        m = re.match(r'^:{3,}[ \t]*(?:\{(.*)\}|([\w-]+))[ \t]*$', lines[i])
        if not m:
            out.append(lines[i])
            i += 1
            continue
        level, j = 1, i + 1
        while j < len(lines):
            if re.match(r'^:{3,}[ \t]*$', lines[j]): level -= 1
            elif re.match(r'^:{3,}[ \t]*[\w{]', lines[j]): level += 1
            if not level: break
            j += 1
        if level: raise SiteError(f'{page.src}: "{lines[i]}" is not closed in its cell')
        inner, below = divs(lines[i + 1:j], page)
        attrs = m[1] or f'.{m[2]}'
        kind = re.search(r'\.callout-(note|tip|warning|important|caution)', attrs)
        if kind: text, fenced = callout(kind[1], attrs, inner)
        else:
            classes = ' '.join(attributes(attrs)[1])
            text, fenced = '\n'.join([f'{{container}} {classes}', '', *inner]), 1
        fence = ':'*(3 + below)
        out += ['', f'{fence}{text}\n{fence}' if fenced else text, '']
        depth, i = max(depth, below + fenced), j + 1
    return out, depth


def reference(m, page):
    "`@fig-x` as a link that says Figure 1; `[-@fig-x]` says 1."
    label = m[2]
    if label.startswith('sec-'): return f'[](#{page.target(label)})'
    if label.startswith('eq-'): return f'{{eq}}`{page.target(label)}`'
    if label not in page.numbers:
        raise SiteError(f'{page.src}: @{label} refers to nothing on its page')
    text = page.numbers[label]
    return f'[{text.split()[-1] if m[1] == "[-" else text}](#{page.target(label)})'


def caption(label, text, page):
    return f'**{page.numbers[label]}.** {text}' if label in page.numbers else text


def heading(m, page):
    label = attributes(m[3])[0]
    if not label: return f'{m[1]} {m[2]}'
    if label.startswith('sec-'): label = page.target(label)
    return f'({label})=\n{m[1]} {m[2]}'


def image(m, page):
    "An image alone in its paragraph is a figure with a caption, as in Quarto."
    label, _, pairs = attributes(m[3])
    options = dict(name=label and page.target(label), alt=pairs.get('fig-alt') or plain(m[1]),
                   width=pairs.get('width'))
    head = ''.join(f':{k}: {v}\n' for k, v in options.items() if v)
    return f'```{{figure}} {m[2]}\n{head}\n{caption(label, m[1], page)}\n```'


def table_caption(label, text, page):
    return f'({page.target(label)})=\n\n{{.table-caption}}\n{caption(label, text, page)}\n'


def to_myst(text, page):
    "Markdown as Quarto reads it, to Markdown as MyST reads it (links between pages come later)."
    mask = Mask()
    text = mask.hide(text, CODE)
    text = EQUATION.sub(lambda m: f'{m[1]} ({page.target(m[2])})', text)
    text = mask.hide(text, MATH)
    text = IMAGE.sub(lambda m: image(m, page), text)
    text = TABLE_CAPTION.sub(lambda m: '\n' + table_caption(m[2], m[1], page), text)
    text = '\n'.join(divs(text.split('\n'), page)[0])
    text = HEADING.sub(lambda m: heading(m, page), text)
    text = REF.sub(lambda m: reference(m, page), text)
    return mask.show(text)


def plain(text):
    "Caption without markup, for the alternative text of a picture."
    text = re.sub(r'\]\([^)]*\)|\[', '', text or '')
    return ' '.join(re.sub(r'[$`*\\{}]', '', text).split())


SHOW_DOC = re.compile(
    r'^---\n+(?:\[source\]\((\S+?)\)\{[^}]*\}\n+)?(#+) (.+?)\n+```python\n(.*?)\n```\n*(.*)$', re.S)


def module_of(doc):
    "The module that a page makes, by the index that nbdev writes; None for a page without."
    from hmmop_nb._modidx import d
    for module, names in d['syms'].items():
        if any(page.partition('#')[0] == f'{doc}.html' for page, _ in names.values()): return module
    return None


def documented(name, doc, source):
    "What a block of nbdev is about: a name of the page's own module, or of the one that it links."
    linked = re.search(r'/blob/[^/]+/(.+)\.py', source or '')
    for module in (module_of(doc), linked and linked[1].replace('/', '.')):
        if not module: continue
        try: return attrgetter(name)(importlib.import_module(module))
        except (AttributeError, ImportError): continue
    return None


def own_source(source, thing):
    "nbdev finds the source by name alone; two modules may have the same, so look where it stands."
    home = getattr(thing, '__module__', '').replace('.', '/')
    if not source or not home or f'/{home}.py' in source: return source
    try: line = inspect.getsourcelines(thing)[1]
    except (OSError, TypeError): return source
    return re.sub(r'(/blob/[^/]+)/.*$', rf'\1/{home}.py#L{line}', source)


def from_nbdev(code):
    "The docments of nbdev's own signature, for what cannot be found in the code."
    told = read_signature(code.replace('=<factory>', '=...'))  # no expression
    # nbdev infers types from defaults: that of None tells nothing
    plain = [p._replace(annotation='') if p.annotation == 'NoneType' else p for p in told.pieces]
    return told._replace(pieces=plain)


def linked_sentences(told):
    "The same with names in backticks as links."
    from nbdev.doclinks import NbdevLookup
    link = NbdevLookup().link_line
    pieces = [p._replace(sentence=link(p.sentence)) for p in told.pieces]
    returns = told.returns and told.returns._replace(sentence=link(told.returns.sentence))
    return told._replace(pieces=pieces, returns=returns)


def parameter_table(told):
    "Markdown table of docments, without empty columns; nothing if nothing is told."
    def code(text): return f'`{text}`' if text else ''
    def line(cells): return '| ' + ' | '.join(c.replace('|', '\\|') for c in cells) + ' |'
    if not told.told: return ''
    cells = [(code(p.name), code(p.annotation), code(p.default), p.sentence)
             for p in told.parameters]
    result = told.returns
    if result: cells.append(('Returns', code(result.annotation), '', result.sentence))
    keep = [i for i in range(4) if any(row[i] for row in cells)]
    table = [('Parameter', 'Type', 'Default', 'Details'), *cells]
    lines = [line([row[i] for i in keep]) for row in table]
    return '\n'.join([lines[0], '|' + ' --- |'*len(keep), *lines[1:]])


def short_signature(name, told):
    "A call with names and defaults; types too, if there is no table to tell them."
    def shown(piece):
        if told.told or not piece.annotation: return str(piece._replace(annotation=''))
        return f'{piece.name}: {piece.annotation}' + (f'={piece.default}' if piece.default else '')
    args = [shown(piece) for piece in told.pieces]
    short = f'{name}({", ".join(args)})'
    return short if len(short) < 80 else f'{name}(\n    ' + ',\n    '.join(args) + ')'


def show_doc(text, doc=''):
    "nbdev's block as heading, link to the source, short signature, docstring and table."
    m = SHOW_DOC.match(text.strip())
    if not m or '(' not in m[4]: return text
    source, level, name, code, said = m.groups()
    thing = documented(name, doc, source)
    source, told = own_source(source, thing), read_docments(thing)
    if told.parameters or told.returns: told = linked_sentences(told)
    elif not inspect.isclass(thing): told = from_nbdev(code)
    code = short_signature(name, told)
    if inspect.isclass(thing) and not told.parameters:
        code = f'class {name}({", ".join(base.__name__ for base in thing.__bases__)})'
    table = parameter_table(told)
    if table: table = f'\n\n::: {{.parameters}}\n\n{table}\n\n:::\n'
    link = f'[source]({source}){{.source-link}}\n\n' if source else ''
    return f'{level} {name}\n\n{link}```python\n{code}\n```\n\n{written_doc(said)}{table}'


def split_options(source):
    "The lines of options at the head of a cell, and the code below them."
    lines = source.split('\n')
    n = next((i for i, l in enumerate(lines) if not l.startswith('#|')), len(lines))
    return lines[:n], '\n'.join(lines[n:]).strip('\n')


def read_options(cell, page):
    "Quarto's `#| key: value` options of a code cell."
    text = [re.sub(r'^#\| ?', '', l) for l in split_options(cell.source)[0]]
    # a bare word is a directive of nbdev
    text = [l for l in text if re.match(r'[\w-]+:(\s|$)|\s+\S|- ', l)]
    try: return yaml.safe_load('\n'.join(text)) or {}
    except yaml.YAMLError as e:
        raise SiteError(f'{page.src}: cell options are not YAML: {text}\n{e}') from None


def options(cell, page):
    "The same, which then leave the source of the cell."
    found = read_options(cell, page)
    cell.source = split_options(cell.source)[1]
    return found


def has_picture(cell):
    return any(kind.startswith('image/') for o in cell.get('outputs', [])
               for kind in o.get('data', {}))


def fold_label(cell):
    "What folded code is, in a word or two: a reader decides by it whether to open it."
    code = split_options(cell.source)[1]
    try: tree = ast.parse(code)
    except SyntaxError: return 'Code'
    kinds = {type(o) for o in tree.body}
    if kinds <= {ast.Import, ast.ImportFrom}: return 'Imports'
    if has_picture(cell): return 'Code of the picture'
    if any('text/markdown' in o.get('data', {}) for o in cell.get('outputs', [])):
        return 'Code of the table'
    checks = [o for o in tree.body if isinstance(o, ast.Assert) or isinstance(o, ast.Expr)
              and isinstance(o.value, ast.Call) and ast.unparse(o.value.func).startswith('test_')]
    if checks: return 'Checks'
    named = [o.name for o in tree.body if isinstance(o, (ast.FunctionDef, ast.ClassDef))]
    return f'Code: {", ".join(named[:3])}' if named else 'Code'


def as_option(name, value):
    "A line of options; quoted as JSON, which is YAML."
    return f'#| {name}: {json.dumps(str(value), ensure_ascii=False)}'


def mend_cell(cell, page):
    """Put right what nbdev left for either build to stumble over.

    Its blocks of a name become heading, signature, sentence and table; folded code gets a label that
    says what it is; a picture with a caption has it as its words too, for those who cannot see it."""
    opts = read_options(cell, page)
    if opts.get('output') == 'asis':
        for o in cell.outputs:
            data = o.get('data', {})
            if 'text/markdown' in data:
                data['text/markdown'] = show_doc(data['text/markdown'], page.doc)
    more = []
    if opts.get('code-fold') in (True, 'true') and 'code-summary' not in opts:
        more.append(as_option('code-summary', fold_label(cell)))
    if has_picture(cell) and opts.get('fig-cap') and not opts.get('fig-alt'):
        more.append(as_option('fig-alt', plain(str(opts['fig-cap']))))
    if more:
        head, code = split_options(cell.source)
        cell.source = '\n'.join([*head, *more, code])


def live_script():
    "A cell that brings the explorers of `live.js` to a page, as output, which both builds leave alone."
    import nbformat.v4 as v4
    script = (ROOT/'tools'/'live.js').read_text(encoding='utf-8')
    html = v4.new_output('display_data', {'text/html': f'<script>\n{script}</script>'})
    # myst-nb leaves out a cell without code, outputs and all
    return v4.new_code_cell('#| echo: false\n# the explorers of this page', outputs=[html])


PATHS = 'reference/paths.ipynb'  # the page whose numbered lists are the paths of three readers


def reading_paths(pages):
    "Title and pages of each path, in order: the first link of every item under a heading."
    paths = {}
    for cell in pages[PATHS].nb.cells if PATHS in pages else []:
        title = re.search(r'^## (.+)$', cell.source, re.M)
        links = re.findall(r'^\d+\. \[[^\]]*\]\(([^)#]+)\)', cell.source, re.M)
        folder = posixpath.dirname(PATHS)
        goals = [posixpath.normpath(posixpath.join(folder, link)) for link in links]
        if title and links: paths[title[1]] = goals
    return paths


def path_links(page, pages):
    "For each path that a page lies on, a line with the page before it and the page after it."
    lines = []
    for title, path in reading_paths(pages).items():
        if page.src not in path: continue
        at = path.index(page.src)
        def link(src):
            there = posixpath.relpath(src, posixpath.dirname(page.src) or '.')
            return f'[{pages[src].meta.get("title", src)}]({there})'
        home = f'[{title}]({posixpath.relpath(PATHS, posixpath.dirname(page.src) or ".")})'
        before = f'← {link(path[at - 1])}' if at else ''
        after = f'{link(path[at + 1])} →' if at + 1 < len(path) else ''
        lines.append(' · '.join(filter(None, [before, f'*{home}, {at + 1} of {len(path)}*', after])))
    return '::: {.reading-path}\n\n' + '\n\n'.join(lines) + '\n\n:::' if lines else ''


RUN_IT = """::: {.callout-note collapse="true"}
## Run this page yourself

[Binder](https://mybinder.org/v2/gh/{repo}/{branch}?labpath={nb}) opens it with everything installed.
[Colab](https://colab.research.google.com/github/{repo}/blob/{branch}/{nb}) needs a first cell:

```text
!git clone -q https://github.com/{repo}
%cd {name}/{folder}
%pip install -q "../..[tutorials]"
```

:::"""


def run_it(page):
    "How to run a tutorial without installing anything; empty for other pages."
    if not page.src.startswith('tutorials/') or page.src.endswith('index.ipynb'): return ''
    ini = configparser.ConfigParser(interpolation=None)
    ini.read(ROOT/'settings.ini')
    cfg = ini['DEFAULT']
    nb = f"{cfg['nbs_path']}/{page.src}"
    facts = dict(repo=f"{cfg['user']}/{cfg['repo']}", branch=cfg['branch'], name=cfg['repo'], nb=nb,
                 folder=posixpath.dirname(nb))
    text = RUN_IT
    for key, value in facts.items(): text = text.replace(f'{{{key}}}', value)
    return text


def mend(pages):
    "Mend all processed notebooks in memory; both builds begin with it."
    import nbformat.v4 as v4
    for page in pages.values():
        for cell in page.nb.cells:
            if cell.cell_type == 'code': mend_cell(cell, page)
        if any('<div class="live"' in cell.source for cell in page.nb.cells
               if cell.cell_type == 'markdown'): page.nb.cells.append(live_script())
        words = [i for i, cell in enumerate(page.nb.cells) if cell.cell_type == 'markdown']
        if words and (text := run_it(page)):
            page.nb.cells.insert(words[0] + 1, v4.new_markdown_cell(text))
        links = path_links(page, pages)
        if links: page.nb.cells.append(v4.new_markdown_cell(links))


def number_labels(page, cells):
    "Give figures and tables their numbers in the order of the page."
    count = dict(fig=0, tbl=0)
    for cell, opts in cells:
        labels = [str(opts['label'])] if 'label' in opts else []
        if cell.cell_type == 'markdown':
            text = Mask().hide(cell.source, CODE)
            labels = re.findall(r'\{#((?:fig|tbl)-[\w-]+)', text)
        for label in labels:
            kind = label.partition('-')[0]
            if kind not in count: continue
            if label in page.numbers: raise SiteError(f'{page.src}: label {label} is used twice')
            count[kind] += 1
            page.numbers[label] = f"{dict(fig='Figure', tbl='Table')[kind]} {count[kind]}"


def asis(cell, page):
    "Markdown that a cell printed or displayed."
    texts = []
    for o in cell.outputs:
        data = o.get('data', {})
        texts.append(o.get('text') or data.get('text/markdown') or data.get('text/html') or '')
    return '\n\n'.join(texts)


def off(value): return value in (False, 'false')


def clean_outputs(cell, opts, page):
    "Outputs a static page can show: no live widgets, no unwanted warnings, pictures with sizes."
    if off(opts.get('output')): return [], {}
    outputs, shown = [], {}
    for o in cell.outputs:
        data = o.get('data', {})
        if o.get('name') == 'stderr' and off(opts.get('warning')): continue
        if 'application/vnd.jupyter.widget-view+json' in data: continue
        if 'text/markdown' in data: data['text/markdown'] = to_myst(data['text/markdown'], page)
        if any(k.startswith('image/') for k in data):
            size = o.get('metadata', {}).get('image/png', {}) if 'image/png' in data else {}
            if 'width' in size: shown['width'] = f"{size['width']}px"
            shown['alt'] = plain(str(opts.get('fig-alt') or opts.get('fig-cap') or ''))
            if not shown['alt']:
                code = cell.source[:60]
                print(f'{page.src}: a picture has neither fig-alt nor fig-cap: {code!r}')
        outputs.append(o)
    return outputs, shown


def code_cell(cell, opts, page):
    "A code cell, with Quarto's options as myst-nb's tags and metadata."
    import nbformat.v4 as v4
    outputs, image = clean_outputs(cell, opts, page)
    label, text, fold = str(opts.get('label', '')), opts.get('fig-cap'), opts.get('code-fold')
    mystnb, tags, before = {}, [], []
    if label.startswith('fig-') and not image:
        raise SiteError(f'{page.src}: {label} has no picture: run the notebook')
    if image: mystnb['image'] = image
    if image and text:
        mystnb['figure'] = dict(caption=to_myst(caption(label, str(text), page), page))
        if label: mystnb['figure']['name'] = page.target(label)
    if label in page.numbers and 'tbl-cap' in opts:
        before = [v4.new_markdown_cell(to_myst(table_caption(label, opts['tbl-cap'], page), page))]
    if off(opts.get('echo')) or not cell.source: tags.append('remove-input')
    elif fold in (True, 'true'):
        tags.append('hide-input')
        mystnb['code_prompt_show'] = mystnb['code_prompt_hide'] = opts.get('code-summary', 'Code')
    elif fold == 'show': tags.append('exported')
    if 'remove-input' in tags and not outputs: return before
    metadata = dict(tags=tags, mystnb=mystnb)
    return before + [v4.new_code_cell(cell.source, outputs=outputs, metadata=metadata)]


def adapt(page):
    "Cells of the page for myst-nb; fills in its numbers and anchors."
    import nbformat.v4 as v4
    cells = [(c, options(c, page) if c.cell_type == 'code' else {})
             for c in page.nb.cells if c.cell_type != 'raw']
    cells = [(c, o) for c, o in cells
             if not off(o.get('include')) and 'AUTOGENERATED! DO NOT EDIT' not in c.source]
    number_labels(page, cells)
    title = f"# {page.meta.get('title', page.doc)}"
    if page.meta.get('description'): title += f"\n\n{{.description}}\n{page.meta['description']}"
    out = [v4.new_markdown_cell(title)]
    for cell, opts in cells:
        if cell.cell_type == 'markdown': text = cell.source
        elif opts.get('output') == 'asis': text = asis(cell, page)
        else:
            out += code_cell(cell, opts, page)
            continue
        out.append(v4.new_markdown_cell(to_myst(text, page)))
    texts = [cell.source for cell in out if cell.cell_type == 'markdown']
    page.anchors |= set(heading_anchors('\n\n'.join(texts)))
    return out


def find_page(path, pages):
    "The page of a notebook, of an address, or of a folder, whose page is its index; None if none."
    if path in pages: return pages[path]
    doc = re.sub(r'\.(ipynb|html)$', '', path).strip('/')
    wanted = (doc, f'{doc}/index'.strip('/'))
    return next((page for page in pages.values() if page.doc in wanted), None)


def find_anchor(anchor, goal):
    """The anchor of a page that nbdev's link means, or `None`.

    nbdev links a method by its own name or as `class.method`, but only what is shown has an anchor:
    take the heading that ends with the name, else the class."""
    if anchor in goal.anchors: return anchor
    ends = sorted(a for a in goal.anchors if a.endswith(f'.{anchor}'))
    owner = anchor.rpartition('.')[0]
    if len(ends) == 1: return ends[0]
    return owner if owner in goal.anchors else None


def find_goal(url, page, pages, base):
    "Page and anchor of a link into the site; `None` for a link elsewhere, `DEAD` for a lost name."
    path, _, anchor = url.partition('#')
    published = url.startswith(base)
    if published: path = path[len(base):]
    elif re.match(r'[a-z]+:|//', url) or not path.endswith(('.ipynb', '.html', '/')): return None
    else: path = posixpath.normpath(posixpath.join(posixpath.dirname(page.src), path))
    goal = find_page(path.strip('/'), pages)
    if not goal: raise SiteError(f'{page.src}: the link to {url} leads to no page')
    labelled = anchor in goal.numbers or anchor.startswith(('sec-', 'eq-'))
    if not published or not anchor or labelled: return goal, anchor
    found = find_anchor(anchor, goal)
    return (goal, found) if found else DEAD


DEAD = ()  # what `find_goal` says of a name that no page shows


def link_in_sphinx(goal, anchor, page):
    "A link as MyST writes it."
    if anchor in goal.numbers or anchor.startswith('sec-'): return f'#{goal.target(anchor)}'
    if anchor.startswith('eq-'):
        # MyST knows no equations of other pages: a plain address, which the browser check follows
        there = posixpath.relpath(goal.doc, posixpath.dirname(page.doc) or '.')
        return f'{there}.html#equation-{goal.target(anchor)}'
    return f'/{goal.doc}.ipynb' + (f'#{anchor}' if anchor else '')


def link_in_quarto(goal, anchor, page):
    "A link as Quarto wants it: to the notebook, whose page it knows."
    there = posixpath.relpath(goal.src, posixpath.dirname(page.src) or '.')
    return there + (f'#{anchor}' if anchor else '')


def relink(text, page, pages, base, write=link_in_sphinx):
    "Turn links of all kinds in `text` into local ones; a name that is nowhere loses its link."
    mask = Mask()
    text = mask.hide(text, re.compile(r'^```.*?^```', re.M | re.S))
    dead = []

    def local(m):
        found = find_goal(m[1], page, pages, base)
        if found is None: return m[1]
        if found is not DEAD: return write(*found, page)
        dead.append(m[1])
        return m[1]

    text = LINK.sub(local, text)
    text = re.sub(r'\[([^\]]*)\]\(([^)\s]+\.html#equation-[^)\s]+)\)', r'<a href="\2">\1</a>', text)
    for url in dead: text = re.sub(r'\[(`[^`]*`)\]\(' + re.escape(url) + r'\)', r'\1', text)
    return mask.show(text)


def relink_cell(cell, *args):
    if cell.cell_type == 'markdown': cell.source = relink(cell.source, *args)
    elif 'figure' in cell.metadata.get('mystnb', {}):
        fig = cell.metadata['mystnb']['figure']
        fig['caption'] = relink(fig['caption'], *args)
    for o in cell.get('outputs', []):
        data = o.get('data', {})
        if 'text/markdown' in data: data['text/markdown'] = relink(data['text/markdown'], *args)


def heading_anchors(text):
    "Anchors of the headings in Markdown, in order, and those that are written out."
    text = re.sub(r'^```.*?^```', '', text, flags=re.M | re.S)
    found = []
    for m in HEADING.finditer(text):
        label = attributes(m[3])[0]
        s, n = label or slug(m[2]), 1
        while s in found: s, n = f'{slug(m[2])}-{n}', n + 1
        found.append(s)
    return found + re.findall(r'^\(([\w.-]+)\)=$', text, re.M)


def written_markdown(cell, opts):
    "The Markdown that a cell puts on its page, as a list of texts."
    if cell.cell_type == 'markdown': return [cell.source]
    return [data['text/markdown'] for data in (o.get('data', {}) for o in cell.outputs)
            if 'text/markdown' in data]


def mend_for_quarto(proc, base):
    "Processed notebooks below `proc` as Quarto should read them, written back; returns the pages."
    import nbformat
    pages = read_pages(proc)
    mend(pages)
    for page in pages.values():
        cells = [(c, read_options(c, page) if c.cell_type == 'code' else {}) for c in page.nb.cells
                 if c.cell_type != 'raw']
        cells = [(c, o) for c, o in cells if not off(o.get('include'))]
        number_labels(page, cells)
        texts = [text for c, o in cells for text in written_markdown(c, o)]
        page.anchors |= set(heading_anchors('\n\n'.join(texts)))
    for page in pages.values():
        for cell in page.nb.cells:
            if cell.cell_type != 'raw': relink_cell(cell, page, pages, base, link_in_quarto)
        nbformat.write(page.nb, proc/page.src)
    return pages


def toctrees(root, pages):
    "The sidebar of _quarto.yml as hidden toctrees of the landing page."
    out = []
    for title, entries in sidebar(root):
        lines = ['```{toctree}', ':hidden:']
        if title: lines.append(f':caption: {title}')
        lines.append('')
        for nb, text in entries:
            doc = 'self' if pages[nb].doc == 'index' else f'/{pages[nb].doc}'
            lines.append(f'{text} <{doc}>' if text else doc)
        out.append('\n'.join([*lines, '```']))
    return '\n\n'.join(out)


def write_sources(root, proc, src, npm, base):
    "Sphinx's source folder: adapted notebooks, pictures and files of nbs/, styles and MathJax."
    import nbformat, nbformat.v4 as v4
    pages = read_pages(proc)
    mend(pages)
    cells = {page.src: adapt(page) for page in pages.values()}
    for page in pages.values():
        for cell in cells[page.src]: relink_cell(cell, page, pages, base)
        if page.doc == 'index': cells[page.src].append(v4.new_markdown_cell(toctrees(root, pages)))
        path = src/f'{page.doc}.ipynb'
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = dict(language_info=dict(name='python'))
        nbformat.write(v4.new_notebook(cells=cells[page.src], metadata=metadata), path)
    for path in proc.rglob('*'):
        if path.is_file() and path.suffix in ('.png', '.svg', '.jpg', '.gif', '.csv', '.pdf'):
            (src/path.relative_to(proc)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, src/path.relative_to(proc))
    es5, static = npm/'mathjax'/'es5', src/'_static'
    if not (es5/'tex-svg.js').exists():
        raise SiteError(f'no MathJax in {npm}: npm install --prefix {npm.parent} mathjax@3.2.2')
    # MathJax fetches rarer macros from its extensions folder when a page needs one
    shutil.copytree(es5/'input'/'tex'/'extensions', static/'mathjax'/'input'/'tex'/'extensions')
    shutil.copy2(es5/'tex-svg.js', static/'mathjax')
    if (proc/'styles.css').exists(): shutil.copy2(proc/'styles.css', static)
    (static/'site.js').write_text(SCRIPT, encoding='utf-8')
    return pages


# the list of pages is longer than the screen: show the part where the reader is, without moving
# the page itself; cells of tables that hold numbers only do not break their lines; and mark
# pictures with several panels side by side, which a phone shows at a readable size and scrolls
# (styles.css)
SCRIPT = """document.addEventListener('DOMContentLoaded', () => {
  const box = document.querySelector('.sidebar-scroll'), here = box?.querySelector('.current-page')
  const top = element => element.getBoundingClientRect().top
  const above = here && top(here) - top(box) - box.clientHeight / 3
  if (here) box.scrollBy({ top: above, behavior: 'instant' }) // the theme would glide
  document.querySelectorAll('article td').forEach(
    cell => cell.classList.toggle('number', /^[-+0-9.,/()±\\s]+$/.test(cell.textContent)))
})
addEventListener('load', () => document.querySelectorAll('article img').forEach(
  picture => picture.classList.toggle('wide', picture.naturalWidth > Math.min(900, 2.2 * picture.naturalHeight))))
"""


ICON = (
    '<svg fill="currentColor" viewBox="0 0 16 16"><path d="M8 0C3.58 0 0 3.58 0 8c0 3.54 2.'
    '29 6.53 5.47 7.59.4.07.55-.17.55-.38 0-.19-.01-.82-.01-1.49-2.01.37-2.53-.49-2.69-.94-'
    '.09-.23-.48-.94-.82-1.13-.28-.15-.68-.52-.01-.53.63-.01 1.08.58 1.23.82.72 1.21 1.87.8'
    '7 2.33.66.07-.52.28-.87.51-1.07-1.78-.2-3.64-.89-3.64-3.95 0-.87.31-1.59.82-2.15-.08-.'
    '2-.36-1.02.08-2.12 0 0 .67-.21 2.2.82a7.6 7.6 0 0 1 4 0c1.53-1.04 2.2-.82 2.2-.82.44 1'
    '.1.16 1.92.08 2.12.51.56.82 1.27.82 2.15 0 3.07-1.87 3.75-3.65 3.95.29.25.54.73.54 1.4'
    '8 0 1.07-.01 1.93-.01 2.2 0 .21.15.46.55.38A8.01 8.01 0 0 0 16 8c0-4.42-3.58-8-8-8z"/>'
    '</svg>')


def sphinx_settings(cfg, static):
    "Configuration of Sphinx: strict, offline, nothing executed."
    return dict(
        project=cfg['title'], author=cfg['author'], copyright=cfg['copyright'],
        version=cfg['version'], language='en',
        extensions=['myst_nb', 'sphinx.ext.mathjax'], nitpicky=True,
        # nbdev's headings may skip a level; a function as slug rule only costs Sphinx its cache
        suppress_warnings=['myst.header', 'config.cache'],
        nb_execution_mode='off', nb_render_markdown_format='myst', nb_merge_streams=True,
        nb_ipywidgets_js={},
        myst_enable_extensions=['dollarmath', 'colon_fence', 'attrs_inline', 'attrs_block',
                                'deflist'],
        myst_heading_anchors=6, myst_heading_slug_func=slug, myst_update_mathjax=False,
        myst_dmath_double_inline=True, myst_dmath_allow_space=False,
        math_eqref_format='Equation {number}', mathjax_path='mathjax/tex-svg.js',
        mathjax3_config=dict(options=dict(ignoreHtmlClass='.*', processHtmlClass='math')),
        html_theme='furo', html_title=cfg['title'], html_static_path=[str(static)],
        html_css_files=['styles.css'] if (static/'styles.css').exists() else [],
        html_js_files=['site.js'], html_baseurl=f"{cfg['doc_host']}{cfg['doc_baseurl']}/",
        html_copy_source=False, html_use_index=False,
        html_theme_options=dict(
            source_repository=cfg['git_url'], source_branch=cfg['branch'],
            source_directory=f"{cfg['nbs_path']}/",
            footer_icons=[dict(name='Repository', url=cfg['git_url'], html=ICON, **{'class': ''})]))


def build_sphinx(root, out, npm, cfg):
    "The site from Sphinx, myst-nb and furo. Returns whether it is free of warnings."
    from importlib.metadata import entry_points
    from sphinx.application import Sphinx
    from sphinx.util.console import nocolor
    if not entry_points(group='nbdev', name=cfg['lib_name']):
        raise SiteError(f"{cfg['lib_name']} is not installed, so names would not become links: "
                        "pip install -e .")
    proc = process(root)
    src = root/'_proc'/'_sphinx'/'src'
    pages = write_sources(root, proc, src, npm, f"{cfg['doc_host']}{cfg['doc_baseurl']}")
    names = {page.doc: page.src for page in pages.values()}
    nocolor()
    made = src.parent/'html'  # myst-nb leaves a folder beside what it builds: not at the top
    app = Sphinx(src, None, made, src.parent/'doctrees', 'html',
                 sphinx_settings(cfg, src/'_static'), status=None, warningiserror=True)

    def repository_links(app, pagename, template, context, doctree):
        "Furo would guess the notebook from the page, but nbdev drops its number."
        file = f"{cfg['branch']}/{cfg['nbs_path']}/{names.get(pagename, '')}"
        context['theme_source_view_link'] = f"{cfg['git_url']}/blob/{file}"
        context['theme_source_edit_link'] = f"{cfg['git_url']}/edit/{file}"

    app.connect('html-page-context', repository_links)
    app.build(force_all=True)
    (made/'.nojekyll').touch()  # else GitHub Pages leaves out _static
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(made, out)
    return app.statuscode == 0


def process(root):
    "nbdev's processed notebooks, from an empty folder: it would keep what is stale."
    from nbdev import serve, serve_drv
    import build_site  # under its own name: other processes cannot know what `__main__` is here
    shutil.rmtree(root/'_proc', ignore_errors=True)
    serve_drv.by_nbdev = serve_drv.main
    serve_drv.main = build_site.process_one  # also in the processes that nbdev starts
    try: return serve.proc_nbs()
    finally: serve_drv.main = serve_drv.by_nbdev


def process_one(task):
    "What nbdev does with a notebook, but for cells that mix imports with other code."
    from nbdev import serve_drv
    run_imports_only()
    return getattr(serve_drv, 'by_nbdev', serve_drv.main)(task)


def run_imports_only():
    """Of a cell that mixes imports with other code, nbdev runs all, for the sake of `show_doc`,
    though the cells before it were not run: it would fail, or put other outputs in place of the
    saved ones. Its imports are what is needed."""
    from nbdev import processors
    kind, run_all = processors.exec_show_docs, processors.exec_show_docs.__call__
    if hasattr(kind, 'imports_only'): return

    def run(self, cell):
        lines = mixed_imports(cell)
        if lines is None: return run_all(self, cell)
        if self.nb.has_docs_ and hasattr(self, 'k'): self.k.run_cell(lines)

    kind.imports_only, kind.__call__ = True, run


def mixed_imports(cell):
    "The imports of a cell that also holds other code and is not exported, else `None`."
    shown = {'export', 'exports', 'exporti', 'exec_doc'}
    if cell.cell_type != 'code' or (getattr(cell, 'directives_', None) or {}).keys() & shown:
        return None
    try: tree = ast.parse(cell.source)
    except SyntaxError: return None  # magics
    if any('show_doc' in ast.unparse(node) for node in tree.body): return None
    imports = (ast.Import, ast.ImportFrom)
    inside = any(isinstance(node, imports) for node in ast.walk(tree))
    if not inside or all(isinstance(node, imports) for node in tree.body): return None
    return '\n'.join(ast.unparse(node) for node in tree.body if isinstance(node, imports))


def quarto_sources(root, cfg):
    "Processed and mended notebooks; the folder they are in."
    proc = process(root)
    mend_for_quarto(proc, f"{cfg['doc_host']}{cfg['doc_baseurl']}")
    return proc


def build_quarto(root, out, cfg):
    """The site from Quarto. What `nbdev_docs` does, with mended notebooks between its two steps;
    README.md and CONTRIBUTING.md are ours, and nothing is left at the top level."""
    from nbdev.quarto import refresh_quarto_yml
    refresh_quarto_yml()
    proc = quarto_sources(root, cfg)
    done = subprocess.run(['quarto', 'render', '--no-cache'], cwd=proc)
    made = proc/cfg['doc_path']
    if done.returncode or not made.exists(): return False
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(made, out)
    return True


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('command', choices=['build', 'sources', 'sidebar'])
    p.add_argument('--root', type=Path, default=ROOT, help='folder of settings.ini and _quarto.yml')
    p.add_argument('--out', type=Path, default=Path('_docs'),
                   help='where the site goes, relative to the root')
    p.add_argument('--npm', type=Path, default=Path('.venv/npm/node_modules'),
                   help='node_modules with mathjax')
    p.add_argument('--builder', choices=['auto', 'quarto', 'sphinx'], default='auto',
                   help='auto: quarto if it is there')
    a = p.parse_args()
    root = a.root.resolve()
    os.chdir(root)  # nbdev looks for settings.ini from here
    if problems := check_sidebar(root): sys.exit('\n'.join(problems))
    if a.command == 'sidebar':
        number = sum(len(pages) for _, pages in sidebar(root))
        return print(f'{number} pages in the sidebar, all there')
    ini = configparser.ConfigParser(interpolation=None)
    ini.read('settings.ini')
    cfg, out = dict(ini['DEFAULT']), root/a.out
    if a.command == 'sources':
        return print(f'{quarto_sources(root, cfg).relative_to(root)}: what Quarto reads')
    quarto = a.builder == 'quarto' or a.builder == 'auto' and shutil.which('quarto')
    try:
        if quarto: good = build_quarto(root, out, cfg)
        else: good = build_sphinx(root, out, root/a.npm, cfg)
    except SiteError as e: sys.exit(f'site: {e}')
    if not good: sys.exit('site: the build gave warnings or errors, see above')
    shown = out.relative_to(root) if out.is_relative_to(root) else out
    print(f'{shown}/index.html: {len(list(out.rglob("*.html")))} pages')


if __name__ == '__main__': main()
