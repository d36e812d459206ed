"""Build the documentation site (`python tools/build_site.py build`) or check its sidebar (`python tools/build_site.py sidebar`).

With `quarto` on the PATH the site is what `nbdev_docs` makes. Without it the same processed notebooks go through a
small adapter, from Quarto's Markdown to MyST, and Sphinx renders them. Both read the sidebar from `_quarto.yml`.
"""
import argparse, ast, configparser, os, posixpath, re, shutil, subprocess, sys
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent


def sidebar(root=ROOT):
    "Sections of the sidebar as `(title, [(notebook, text or None), ...])`, in order."
    contents = yaml.safe_load((Path(root)/'_quarto.yml').read_text())['website']['sidebar']['contents']

    def entries(items):
        for o in items:
            if isinstance(o, str): yield o, None
            elif 'section' in o: yield from entries(([o['href']] if 'href' in o else []) + o.get('contents', []))
            else: yield o['href'], o.get('text')

    return [(o.get('section') if isinstance(o, dict) else None, list(entries([o]))) for o in contents]


def check_sidebar(root=ROOT):
    "What is wrong with the sidebar, one line each: Quarto itself says nothing about a page it cannot reach."
    root, nbs = Path(root), Path(root)/'nbs'
    listed = [nb for _, pages in sidebar(root) for nb, _ in pages]
    files = {p.relative_to(nbs).as_posix() for p in nbs.rglob('*.ipynb')
             if not any(part[0] in '_.' for part in p.relative_to(nbs).parts)}
    problems = [f'_quarto.yml lists {nb}, but nbs/{nb} does not exist' for nb in listed if nb not in files]
    problems += [f'nbs/{nb} is not in the sidebar of _quarto.yml' for nb in sorted(files - set(listed))]
    problems += [f'_quarto.yml lists {nb} more than once' for nb in sorted({nb for nb in listed if listed.count(nb) > 1})]
    if not (nbs/'_quarto.yml').is_symlink() or (nbs/'_quarto.yml').resolve() != (root/'_quarto.yml').resolve():
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
        front = next((c.source for c in nb.cells if c.cell_type == 'raw' and c.source.startswith('---')), '')
        meta = yaml.safe_load(front.strip().strip('-')) or {}
        pages[src] = Page(src, nb, meta)
    docs = [p.doc for p in pages.values()]
    if clash := {d for d in docs if docs.count(d) > 1}: raise SiteError(f'two notebooks make the same page: {clash}')
    return pages


CODE = re.compile(r'^[ \t]*(?P<f>`{3,}|~{3,}).*?^[ \t]*(?P=f)[ \t]*$|(?P<t>`+)(?:(?!\n\n).)+?(?P=t)(?!`)', re.M | re.S)
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
    pairs = {k: v.strip('"\'') for k, v in re.findall(r'([\w-]+)=("[^"]*"|\'[^\']*\'|\S+)', text or '')}
    bare = re.sub(r'[\w-]+=("[^"]*"|\'[^\']*\'|\S+)', '', text or '').split()
    return next((o[1:] for o in bare if o[0] == '#'), None), [o[1:] for o in bare if o[0] == '.'], pairs


def slug(title):
    "Anchor of a heading by pandoc's rule, so that links hold in both builds (`HMMOP.sample` gives `hmmop.sample`)."
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
        return (f'<details class="admonition {kind}"><summary class="admonition-title">{title or kind.title()}</summary>\n\n'
                f'{body}\n\n</details>'), 0
    return f'{{admonition}} {title or kind.title()}\n:class: {kind}\n\n{body}', 1


def divs(lines, page):
    "Quarto's `:::` blocks as MyST directives. Returns the lines and how deep they nest: MyST wants longer outer fences."
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
        text, fenced = callout(kind[1], attrs, inner) if kind else \
            ('{container} ' + ' '.join(attributes(attrs)[1]) + '\n\n' + '\n'.join(inner), 1)
        fence = ':'*(3 + below)
        out += ['', f'{fence}{text}\n{fence}' if fenced else text, '']
        depth, i = max(depth, below + fenced), j + 1
    return out, depth


def reference(m, page):
    "`@fig-x` as a link that says Figure 1; `[-@fig-x]` says 1."
    label = m[2]
    if label.startswith('sec-'): return f'[](#{page.target(label)})'
    if label.startswith('eq-'): return f'{{eq}}`{page.target(label)}`'
    if label not in page.numbers: raise SiteError(f'{page.src}: @{label} refers to nothing on its page')
    text = page.numbers[label]
    return f'[{text.split()[-1] if m[1] == "[-" else text}](#{page.target(label)})'


def caption(label, text, page):
    return f'**{page.numbers[label]}.** {text}' if label in page.numbers else text


def heading(m, page):
    label = attributes(m[3])[0]
    return (f'({page.target(label) if label.startswith("sec-") else label})=\n' if label else '') + f'{m[1]} {m[2]}'


def image(m, page):
    "An image alone in its paragraph is a figure with a caption, as in Quarto."
    label, _, pairs = attributes(m[3])
    options = dict(name=label and page.target(label), alt=pairs.get('fig-alt') or plain(m[1]), width=pairs.get('width'))
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
    return re.sub(r'\s+', ' ', re.sub(r'[$`*\\{}]', '', re.sub(r'\]\([^)]*\)|\[', '', text or ''))).strip()


SHOW_DOC = re.compile(r'^---\n+(?:\[source\]\((\S+?)\)\{[^}]*\}\n+)?(#+) (.+?)\n+```python\n(.*?)\n```\n*(.*)$', re.S)


def parameters(fn, code):
    "Rows (name, type, default, details) of a parsed signature; the details are the comments beside the parameters."
    said = dict(re.findall(r'^\s*\**(\w+)\b.*?[ ,]# (.*)$', code, re.M))
    args = fn.args.posonlyargs + fn.args.args
    defaults = [None]*(len(args) - len(fn.args.defaults)) + fn.args.defaults + fn.args.kw_defaults
    rows = []
    for arg, default in zip(args + fn.args.kwonlyargs, defaults):
        kind = ast.unparse(arg.annotation) if arg.annotation else ''
        # nbdev infers the type from the default: a None tells nothing
        rows.append((arg.arg, '' if kind == 'NoneType' else kind, ast.unparse(default) if default else '', said.get(arg.arg, '')))
    rows += [(f'{stars}{arg.arg}', '', '', said.get(arg.arg, ''))
             for stars, arg in (('*', fn.args.vararg), ('**', fn.args.kwarg)) if arg]
    returned = re.search(r'^\)\s*(?:->\s*(.*?))?:(?:\s*# (.*))?$', code, re.M)
    if returned and returned[2]: rows.append(('Returns', returned[1] or '', '', returned[2]))
    return rows


def source_text(name, source):
    "The code of what is documented, found by its link to the source; empty if it cannot be found."
    import importlib, inspect
    from operator import attrgetter
    module = re.search(r'/blob/[^/]+/(.+)\.py', source or '')
    if not module: return ''
    try: return inspect.getsource(attrgetter(name)(importlib.import_module(module[1].replace('/', '.'))))
    except (AttributeError, TypeError): return ''


def completed(rows, name, source):
    "Rows with what nbdev's show_doc leaves out and the code says: comments of `**keywords` and of the result, defaults as written."
    from nbdev.doclinks import NbdevLookup
    from textwrap import dedent
    text = dedent(source_text(name, source))
    try: fn = ast.parse(text).body[0]
    except (SyntaxError, IndexError): return rows, set()
    if not isinstance(fn, ast.FunctionDef): return rows, set()
    said, link = dict(re.findall(r'^\s*(\*+\w+),?\s*# (.*)$', text, re.M)), NbdevLookup().link_line
    written = {r[0]: r[2] for r in parameters(fn, '')}
    rows = [(n, t, written.get(n, d), details or link(said.get(n, ''))) for n, t, d, details in rows]
    returned = re.search(r'^\):\s*# (.*)$', text, re.M)
    if returned and not any(r[0] == 'Returns' for r in rows): rows.append(('Returns', '', '', link(returned[1])))
    return rows, {arg.arg for arg in fn.args.kwonlyargs} if not fn.args.vararg else set()


def fields(name, source):
    "The same rows for the fields of a dataclass or NamedTuple, whose comments nbdev's show_doc leaves out."
    from nbdev.doclinks import NbdevLookup
    text = source_text(name, source)
    if not re.match(r'(@.*\n)*class ', text): return []
    lines, link, rows = text.split('\n'), NbdevLookup().link_line, []
    for node in ast.parse(text).body[0].body:
        if not isinstance(node, ast.AnnAssign): continue
        said = re.search(r'# (.*)$', lines[node.lineno - 1])
        made = next((k.value for k in getattr(node.value, 'keywords', []) if k.arg == 'default_factory'), None)
        default = f'{ast.unparse(made)}()' if made else ast.unparse(node.value) if node.value else ''
        rows.append((node.target.id, ast.unparse(node.annotation), default, link(said[1]) if said else ''))
    return rows if any(r[3] for r in rows) else []


def parameter_table(rows):
    "Markdown table of `rows`, without the columns in which nothing stands."
    code = lambda s: f'`{s}`' if s else ''
    rows = [(n if n == 'Returns' else code(n), code(t), code(d), details) for n, t, d, details in rows]
    keep = [i for i in range(4) if any(r[i] for r in rows)]
    head = ('Parameter', 'Type', 'Default', 'Details')
    line = lambda r: '| ' + ' | '.join(r[i].replace('|', '\\|') for i in keep) + ' |'
    return '\n'.join([line(head), '|' + ' --- |'*len(keep), *map(line, rows)])


def show_doc(text):
    "nbdev's block as heading, link to the source, short signature, docstring and table of the parameters."
    m = SHOW_DOC.match(text.strip())
    if not m: return text
    source, level, name, code, doc = m.groups()
    table = ''
    factory, code = '=<factory>' in code, code.replace('=<factory>', '=...')  # no expression: what is made stands in the code
    try: rows = parameters(ast.parse(code + '\n    pass').body[0], code)
    except SyntaxError: rows = None  # another default that is no expression: leave nbdev's own text
    if rows is not None:
        rows, by_name = completed(rows, name, source)
        if factory or not any(r[3] for r in rows): rows = fields(name, source) or rows
        told = any(r[3] for r in rows)  # then the table has the types
        args = [n + ('' if told or not t else f': {t}') + (f'={d}' if d else '') for n, t, d, _ in rows if n != 'Returns']
        first = next((i for i, r in enumerate(rows) if r[0] in by_name), None)
        if first is not None: args.insert(first, '*')
        short = f'{name}({", ".join(args)})'
        code = short if len(short) < 80 else f'{name}(\n    ' + ',\n    '.join(args) + ')'
        if told: table = '\n\n:::{container} parameters\n\n' + parameter_table(rows) + '\n:::\n'
    link = f'[source]({source}){{.source-link}}\n\n' if source else ''
    return f'{level} {name}\n\n{link}```python\n{code}\n```\n\n{doc}{table}'


def options(cell, page):
    "Quarto's `#| key: value` options of a code cell, which then leave its source."
    lines = cell.source.split('\n')
    n = next((i for i, l in enumerate(lines) if not l.startswith('#|')), len(lines))
    cell.source = '\n'.join(lines[n:]).strip('\n')
    text = [re.sub(r'^#\| ?', '', l) for l in lines[:n]]
    text = [l for l in text if re.match(r'[\w-]+:(\s|$)|\s+\S|- ', l)]  # a bare word is a directive of nbdev
    try: return yaml.safe_load('\n'.join(text)) or {}
    except yaml.YAMLError as e: raise SiteError(f'{page.src}: cell options are not YAML: {text}\n{e}') from None


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


def own_source(text, module):
    "nbdev finds the source by name alone; if the module of this page has that name, the link leads there."
    import importlib, importlib.util, inspect
    m = SHOW_DOC.match(text.strip())
    link = m and m[1] and re.search(r'/blob/[^/]+/(.+)/(\w+)\.py', m[1])
    if not link or link[2] == module or not importlib.util.find_spec(f"{link[1].replace('/', '.')}.{module}"): return text
    home = importlib.import_module(f"{link[1].replace('/', '.')}.{module}")
    thing = getattr(home, m[3], None)
    if getattr(thing, '__module__', None) != home.__name__: return text
    return text.replace(m[1], re.sub(r'\w+\.py(#L\w+)?$', f'{module}.py#L{inspect.getsourcelines(thing)[1]}', m[1]), 1)


def asis(cell, page):
    "Markdown that a cell printed or displayed."
    texts = [o.get('text') or o.get('data', {}).get('text/markdown') or o.get('data', {}).get('text/html') or ''
             for o in cell.outputs]
    return '\n\n'.join(show_doc(own_source(t, page.doc)) for t in texts)


def off(value): return value in (False, 'false')


def clean_outputs(cell, opts, page):
    "Outputs a static page can show: without live widgets and unwanted warnings, with sizes for high-resolution pictures."
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
            if not shown['alt']: print(f'{page.src}: a picture has neither fig-alt nor fig-cap: {cell.source[:60]!r}')
        outputs.append(o)
    return outputs, shown


def code_cell(cell, opts, page):
    "A code cell, with Quarto's options as myst-nb's tags and metadata."
    import nbformat.v4 as v4
    outputs, image = clean_outputs(cell, opts, page)
    label, text, fold = str(opts.get('label', '')), opts.get('fig-cap'), opts.get('code-fold')
    mystnb, tags, before = {}, [], []
    if label.startswith('fig-') and not image: raise SiteError(f'{page.src}: {label} has no picture: run the notebook')
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
    return before + [v4.new_code_cell(cell.source, outputs=outputs, metadata=dict(tags=tags, mystnb=mystnb))]


def adapt(page):
    "Cells of the page for myst-nb; fills in its numbers and anchors."
    import nbformat.v4 as v4
    cells = [(c, options(c, page) if c.cell_type == 'code' else {}) for c in page.nb.cells if c.cell_type != 'raw']
    cells = [(c, o) for c, o in cells if not off(o.get('include')) and 'AUTOGENERATED! DO NOT EDIT' not in c.source]
    number_labels(page, cells)
    title = f"# {page.meta.get('title', page.doc)}"
    if page.meta.get('description'): title += f"\n\n{{.description}}\n{page.meta['description']}"
    out = [v4.new_markdown_cell(title)]
    for cell, opts in cells:
        if cell.cell_type == 'markdown': out.append(v4.new_markdown_cell(to_myst(cell.source, page)))
        elif opts.get('output') == 'asis': out.append(v4.new_markdown_cell(to_myst(asis(cell, page), page)))
        else: out += code_cell(cell, opts, page)
    for cell in out:
        if cell.cell_type != 'markdown': continue
        text = re.sub(r'^```.*?^```', '', cell.source, flags=re.M | re.S)
        for m in HEADING.finditer(text):
            s, n = slug(m[2]), 1
            while s in page.anchors: s, n = f'{slug(m[2])}-{n}', n + 1
            page.anchors.add(s)
        page.anchors |= set(re.findall(r'^\(([\w.-]+)\)=$', text, re.M))
    return out


def resolve(url, page, pages, base):
    "A link to a notebook, to its page, or to our published site, as a MyST link; None where nothing is to change."
    path, _, anchor = url.partition('#')
    published = url.startswith(base)
    if published: path = path[len(base):].strip('/') or 'index.html'
    elif re.match(r'[a-z]+:|//', url) or not path.endswith(('.ipynb', '.html')): return None
    else: path = posixpath.normpath(posixpath.join(posixpath.dirname(page.src), path))
    goal = pages.get(path) or next((p for p in pages.values() if p.doc == re.sub(r'\.(ipynb|html)$', '', path)), None)
    if not goal: raise SiteError(f'{page.src}: the link to {url} leads to no page')
    if anchor in goal.numbers or anchor.startswith('sec-'): return f'#{goal.target(anchor)}'
    if anchor.startswith('eq-'):  # MyST knows no equations of other pages: a plain address, which the browser check follows
        return posixpath.relpath(goal.doc, posixpath.dirname(page.doc) or '.') + f'.html#equation-{goal.target(anchor)}'
    if published and anchor and anchor not in goal.anchors:
        # nbdev links every method, but only what show_doc shows has an anchor: fall back on the class
        anchor = anchor.rpartition('.')[0]
        if anchor not in goal.anchors: return ''
    return f'/{goal.doc}.ipynb' + (f'#{anchor}' if anchor else '')


def relink(text, page, pages, base):
    "Turn links of all kinds in `text` into local ones; a name that stands nowhere on the site loses its link."
    mask = Mask()
    text = mask.hide(text, re.compile(r'^```.*?^```', re.M | re.S))
    dead = []

    def local(m):
        new = resolve(m[1], page, pages, base)
        if new == '': dead.append(m[1])
        return new or m[1]

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
        if 'text/markdown' in o.get('data', {}): o.data['text/markdown'] = relink(o.data['text/markdown'], *args)


def toctrees(root, pages):
    "The sidebar of _quarto.yml as hidden toctrees of the landing page."
    out = []
    for title, entries in sidebar(root):
        lines = []
        for nb, text in entries:
            doc = 'self' if pages[nb].doc == 'index' else f'/{pages[nb].doc}'
            lines.append(f'{text} <{doc}>' if text else doc)
        out.append('```{toctree}\n:hidden:\n' + (f':caption: {title}\n' if title else '') + '\n' + '\n'.join(lines) + '\n```')
    return '\n\n'.join(out)


def write_sources(root, proc, src, npm, base):
    "Sphinx's source folder: adapted notebooks, pictures and other files of nbs/, styles and MathJax."
    import nbformat, nbformat.v4 as v4
    pages = read_pages(proc)
    cells = {page.src: adapt(page) for page in pages.values()}
    for page in pages.values():
        for cell in cells[page.src]: relink_cell(cell, page, pages, base)
        if page.doc == 'index': cells[page.src].append(v4.new_markdown_cell(toctrees(root, pages)))
        path = src/f'{page.doc}.ipynb'
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(v4.new_notebook(cells=cells[page.src], metadata=dict(language_info=dict(name='python'))), path)
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


# the list of pages is longer than the screen: show the part where the reader is, without moving the page itself;
# cells of tables that hold numbers only do not break their lines;
# and mark pictures with several panels side by side, which a phone shows at a readable size and scrolls (styles.css)
SCRIPT = """document.addEventListener('DOMContentLoaded', () => {
  const box = document.querySelector('.sidebar-scroll'), here = box?.querySelector('.current-page')
  const above = here && here.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3
  if (here) box.scrollBy({ top: above, behavior: 'instant' }) // the theme would glide
  document.querySelectorAll('article td').forEach(cell => cell.classList.toggle('number', /^[-+0-9.,/()±\\s]+$/.test(cell.textContent)))
})
addEventListener('load', () => document.querySelectorAll('article img').forEach(
  picture => picture.classList.toggle('wide', picture.naturalWidth > 2.2 * picture.naturalHeight)))
"""


def sphinx_settings(cfg, static):
    "Configuration of Sphinx: strict, offline, nothing executed."
    icon = ('<svg fill="currentColor" viewBox="0 0 16 16"><path d="M8 0C3.58 0 0 3.58 0 8c0 3.54 2.29 6.53 5.47 7.59.4.07.55-.17.55-.38 '
            '0-.19-.01-.82-.01-1.49-2.01.37-2.53-.49-2.69-.94-.09-.23-.48-.94-.82-1.13-.28-.15-.68-.52-.01-.53.63-.01 1.08.58 1.23.82.72 '
            '1.21 1.87.87 2.33.66.07-.52.28-.87.51-1.07-1.78-.2-3.64-.89-3.64-3.95 0-.87.31-1.59.82-2.15-.08-.2-.36-1.02.08-2.12 0 0 .67-.21 '
            '2.2.82a7.6 7.6 0 0 1 4 0c1.53-1.04 2.2-.82 2.2-.82.44 1.1.16 1.92.08 2.12.51.56.82 1.27.82 2.15 0 3.07-1.87 3.75-3.65 3.95.29.25'
            '.54.73.54 1.48 0 1.07-.01 1.93-.01 2.2 0 .21.15.46.55.38A8.01 8.01 0 0 0 16 8c0-4.42-3.58-8-8-8z"/></svg>')
    return dict(
        project=cfg['title'], author=cfg['author'], copyright=cfg['copyright'], version=cfg['version'], language='en',
        extensions=['myst_nb', 'sphinx.ext.mathjax'], nitpicky=True,
        # nbdev's headings may skip a level; a function as slug rule only costs Sphinx its cache
        suppress_warnings=['myst.header', 'config.cache'],
        nb_execution_mode='off', nb_render_markdown_format='myst', nb_merge_streams=True, nb_ipywidgets_js={},
        myst_enable_extensions=['dollarmath', 'colon_fence', 'attrs_inline', 'attrs_block', 'deflist'],
        myst_heading_anchors=6, myst_heading_slug_func=slug, myst_dmath_double_inline=True, myst_dmath_allow_space=False,
        myst_update_mathjax=False,
        math_eqref_format='Equation {number}', mathjax_path='mathjax/tex-svg.js',
        mathjax3_config=dict(options=dict(ignoreHtmlClass='.*', processHtmlClass='math')),
        html_theme='furo', html_title=cfg['title'], html_static_path=[str(static)],
        html_css_files=['styles.css'] if (static/'styles.css').exists() else [], html_js_files=['site.js'],
        html_baseurl=f"{cfg['doc_host']}{cfg['doc_baseurl']}/", html_copy_source=False, html_use_index=False,
        html_theme_options=dict(
            source_repository=cfg['git_url'], source_branch=cfg['branch'], source_directory=f"{cfg['nbs_path']}/",
            footer_icons=[dict(name='Repository', url=cfg['git_url'], html=icon, **{'class': ''})]))


def build_sphinx(root, out, npm, cfg):
    "The site from Sphinx, myst-nb and furo. Returns whether it is free of warnings."
    from importlib.metadata import entry_points
    from nbdev.serve import proc_nbs
    from sphinx.application import Sphinx
    from sphinx.util.console import nocolor
    if not entry_points(group='nbdev', name=cfg['lib_name']):
        raise SiteError(f"{cfg['lib_name']} is not installed, so names would not become links: pip install -e .")
    shutil.rmtree(root/'_proc', ignore_errors=True)
    proc = proc_nbs()
    src = root/'_proc'/'_sphinx'/'src'
    pages = write_sources(root, proc, src, npm, f"{cfg['doc_host']}{cfg['doc_baseurl']}")
    names = {page.doc: page.src for page in pages.values()}
    nocolor()
    made = src.parent/'html'  # myst-nb leaves a folder beside what it builds: not at the top of the repository
    app = Sphinx(src, None, made, src.parent/'doctrees', 'html', sphinx_settings(cfg, src/'_static'), status=None,
                 warningiserror=True)

    def repository_links(app, pagename, template, context, doctree):
        "Furo would guess the notebook from the page, but nbdev drops its number."
        blob = f"{cfg['git_url']}/{{}}/{cfg['branch']}/{cfg['nbs_path']}/{names.get(pagename, '')}"
        context['theme_source_view_link'], context['theme_source_edit_link'] = blob.format('blob'), blob.format('edit')

    app.connect('html-page-context', repository_links)
    app.build(force_all=True)
    (made/'.nojekyll').touch()  # else GitHub Pages leaves out _static
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(made, out)
    return app.statuscode == 0


def build_quarto(root, out, cfg):
    "The site from nbdev_docs, which would also rewrite README.md in Quarto's dialect: `make nb` owns that file."
    readme = root/'README.md'
    saved = readme.read_bytes() if readme.exists() else None
    try: return subprocess.run([sys.executable, '-c', 'from nbdev.quarto import nbdev_docs; nbdev_docs.__wrapped__()']).returncode == 0
    finally:
        if saved is not None: readme.write_bytes(saved)
        made = root/cfg['doc_path']
        if made != out and made.exists():
            shutil.rmtree(out, ignore_errors=True)
            shutil.move(made, out)


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('command', choices=['build', 'sidebar'])
    p.add_argument('--root', type=Path, default=ROOT, help='folder of settings.ini and _quarto.yml')
    p.add_argument('--out', type=Path, default=Path('_docs'), help='where the site goes, relative to the root')
    p.add_argument('--npm', type=Path, default=Path('.venv/npm/node_modules'), help='node_modules with mathjax')
    p.add_argument('--builder', choices=['auto', 'quarto', 'sphinx'], default='auto', help='auto: quarto if it is there')
    a = p.parse_args()
    root = a.root.resolve()
    os.chdir(root)  # nbdev looks for settings.ini from here
    if problems := check_sidebar(root): sys.exit('\n'.join(problems))
    if a.command == 'sidebar': return print(f'{sum(len(pages) for _, pages in sidebar(root))} pages in the sidebar, all there')
    ini = configparser.ConfigParser(interpolation=None)
    ini.read('settings.ini')
    cfg, out = dict(ini['DEFAULT']), root/a.out
    quarto = a.builder == 'quarto' or a.builder == 'auto' and shutil.which('quarto')
    try: good = build_quarto(root, out, cfg) if quarto else build_sphinx(root, out, root/a.npm, cfg)
    except SiteError as e: sys.exit(f'site: {e}')
    if not good: sys.exit('site: the build gave warnings or errors, see above')
    print(f'{out.relative_to(root) if out.is_relative_to(root) else out}/index.html: {len(list(out.rglob("*.html")))} pages')


if __name__ == '__main__': main()
