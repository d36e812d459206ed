// Open every page of the built site in a real browser and check what a reader would meet.
// node tools/check_site.mjs [_docs] [--npm .venv/npm/node_modules] [--word omission] [--shots DIR] [--only PATTERN]
// --only looks at the pages whose name matches, and leaves out anchors of the others
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { extname, join, normalize, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { execFileSync } from 'node:child_process'

const { values: opt, positionals: [folder = '_docs'] } = parseArgs({ allowPositionals: true, options: {
  npm: { type: 'string', default: '.venv/npm/node_modules' },
  word: { type: 'string', default: 'omission' }, shots: { type: 'string' }, only: { type: 'string', default: '' } } })
const dir = resolve(folder)
const { chromium } = createRequire(join(resolve(opt.npm), 'x.js'))('playwright-core')
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.png': 'image/png',
  '.jpg': 'image/jpeg', '.gif': 'image/gif', '.json': 'application/json', '.woff2': 'font/woff2' }

function serve() {
  const server = createServer((req, res) => {
    if (req.url === '/favicon.ico') { res.writeHead(204); return res.end() } // the browser's own wish, not the page's
    let file = normalize(join(dir, decodeURIComponent(new URL(req.url, 'http://x').pathname)))
    if (existsSync(file) && statSync(file).isDirectory()) file = join(file, 'index.html')
    if (!file.startsWith(dir) || !existsSync(file)) { res.writeHead(404); return res.end() }
    res.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' })
    res.end(readFileSync(file))
  })
  return new Promise(done => server.listen(0, '127.0.0.1', () => done(server)))
}

// Runs in the page: everything that can be read off its final state
function inspect() {
  const article = document.querySelector('article, main') ?? document.body
  const words = article.cloneNode(true)
  words.querySelectorAll('pre, code, script, style, mjx-container').forEach(e => e.remove())
  const headings = [...article.querySelectorAll('h1, h2, h3, h4')].map(e => e.textContent.replace('#', '').trim())
  const maths = [...document.querySelectorAll('.math')]
  return {
    ids: [...document.querySelectorAll('[id]')].map(e => e.id),
    links: [...document.querySelectorAll('a[href]')].map(a => a.href),
    images: [...document.images].map(i => ({ src: i.currentSrc || i.src, alt: i.alt.trim(), ok: i.complete && i.naturalWidth > 0 })),
    twice: headings.filter((text, i) => headings.indexOf(text) !== i),
    maths: maths.length,
    untypeset: maths.filter(e => !e.querySelector('mjx-container')).map(e => e.textContent.trim().slice(0, 60)),
    // an unknown macro is no error to MathJax: it sets the name in red
    mathErrors: [...document.querySelectorAll('mjx-merror, merror, [data-mml-node="merror"], mjx-container [fill="red"]')]
      .map(e => e.closest('.math')?.textContent.slice(0, 60) ?? e.textContent),
    // Markdown of Quarto that nobody translated
    leftovers: words.textContent.match(/\$\$|\\\(|\\\[|:::|\{#\w+|\{\.[\w-]+|@(?:eq|fig|tbl|sec)-\w+|\]\(/g) ?? [],
  }
}

async function openPage(context, origin, name) {
  const page = await context.newPage(), problems = []
  page.on('console', m => m.type() === 'error' && problems.push(`console: ${m.text()}`))
  page.on('pageerror', e => problems.push(`script error: ${e.message}`))
  page.on('requestfailed', r => problems.push(`request failed: ${r.url()}`))
  page.on('response', r => r.status() >= 400 && problems.push(`${r.status()}: ${r.url()}`))
  page.on('request', r => /^(https?|wss?):/.test(r.url()) && !r.url().startsWith(origin) && problems.push(`outside request: ${r.url()}`))
  await page.goto(`${origin}/${name}`, { waitUntil: 'load' })
  await page.evaluate(async () => { if (window.MathJax?.startup) await window.MathJax.startup.promise })
  return { page, problems }
}

async function shoot(page, name) {
  const base = join(opt.shots, name.replaceAll('/', '_').replace('.html', ''))
  for (const [tag, width, colorScheme] of [['light', 1280, 'light'], ['dark', 1280, 'dark'], ['phone', 390, 'light']]) {
    await page.setViewportSize({ width, height: 900 })
    await page.emulateMedia({ colorScheme })
    await page.screenshot({ path: `${base}_${tag}.png`, fullPage: true })
  }
}

async function checkPage(context, origin, name) {
  const { page, problems } = await openPage(context, origin, name)
  const seen = await page.evaluate(inspect)
  for (const i of seen.images) if (!i.ok) problems.push(`image not loaded: ${i.src}`)
  for (const t of seen.untypeset) problems.push(`formula not typeset: ${t}`)
  for (const t of seen.mathErrors) problems.push(`formula with an error: ${t}`)
  for (const t of new Set(seen.leftovers)) problems.push(`raw markup in the text: ${t}`)
  const hidden = await page.evaluate(() => { // furo's list of pages scrolls by itself
    const here = document.querySelector('.sidebar-scroll .current-page > a')?.getBoundingClientRect()
    return here && (here.top < 0 || here.bottom > innerHeight)
  })
  if (hidden) problems.push('the list of pages does not show where the reader is')
  if (opt.shots) await shoot(page, name)
  for (const width of [1280, 1440, 1920]) { // code is written in lines of 100 characters, and all of them are shown
    await page.setViewportSize({ width, height: 900 })
    const cut = await page.evaluate(() => {
      document.querySelectorAll('details').forEach(d => { d.open = true })
      return [...document.querySelectorAll('article pre, main pre')].filter(e => e.scrollWidth > e.clientWidth + 1)
        .map(e => e.textContent.split('\n').reduce((a, b) => a.length > b.length ? a : b).trim().slice(0, 60))
    })
    if (cut.length) problems.push(`at ${width} px ${cut.length} blocks of code are cut, for instance: ${cut[0]}`)
  }
  for (const alt of seen.images.filter(i => !i.alt)) problems.push(`picture without words: ${alt.src.slice(0, 80)}`)
  for (const title of seen.twice) problems.push(`two headings are the same: ${title}`)
  await page.setViewportSize({ width: 390, height: 900 })
  // furo scrolls its content, not the document
  const over = await page.evaluate(() => Math.max(...[...document.querySelectorAll('html, .content')].map(e => e.scrollWidth - e.clientWidth)))
  if (over > 1) problems.push(`on a phone the page is ${over} px too wide`)
  await page.close()
  return { name, problems, ...seen }
}

// Links are judged after all pages are known, for their anchors
function checkLinks(result, byName, origin) {
  const local = result.links.filter(l => l.startsWith(origin + '/'))
  for (const link of new Set(local)) {
    const url = new URL(link), path = decodeURIComponent(url.pathname).slice(1) || 'index.html'
    const target = byName.get(path), anchor = decodeURIComponent(url.hash.slice(1))
    if (!target && !existsSync(join(dir, path))) result.problems.push(`dead link: ${path}`)
    else if (target && anchor && !target.ids.includes(anchor)) result.problems.push(`dead anchor: ${path}#${anchor}`)
  }
  return local.length
}

async function checkSearch(context, origin) {
  const { page, problems } = await openPage(context, origin, 'index.html')
  const box = page.locator('input[name=q], .aa-Input').first()
  await box.fill(opt.word)
  await box.press('Enter')
  const found = page.locator('ul.search li a, .aa-Item a')
  await found.first().waitFor({ timeout: 10000 }).catch(() => problems.push(`search for "${opt.word}" finds nothing`))
  // the summaries under the results are fetched afterwards
  await page.waitForLoadState('networkidle')
  if (opt.shots) await page.screenshot({ path: join(opt.shots, 'search_results.png') })
  const count = await found.count()
  await page.close()
  return { name: `search "${opt.word}"`, problems, note: `${count} results` }
}

// The explorers of the page against Python: formulas to 1e-10, and what a reader sees after turning a knob
const PYTHON_CASES = `
import json, numpy as np
from hmmop_nb import thin, unthin, nearest_stochastic, l1_distance
from hmmop_nb.gaps import gap_law
rng, cases = np.random.default_rng(0), []
for n in (2, 3, 4, 7, 12):
    for psi in (0., .3, .95, rng.uniform(0, .9, n)):
        T = rng.dirichlet(np.full(n, .5), n)
        told = np.asarray(psi) * .7
        R = thin(T, psi)
        raw = unthin(R, told)
        cases.append(dict(T=T, psi=psi, told=told, thin=R, unthin=raw, near=nearest_stochastic(2 * raw - 1 / n),
                          doubled=2 * raw - 1 / n, gaps=gap_law(T, psi, 9), l1=l1_distance(R, T)))
print(json.dumps(cases, default=lambda x: x.tolist()))
T = np.array([[.1, .8, .1, 0], [0, .1, .8, .1], [.1, 0, .1, .8], [.8, .1, 0, .1]])
print(json.dumps({str(psi): round(float(l1_distance(thin(T, psi), T)), 3) for psi in (.25, .8)}))
`
async function checkLive(context, origin) {
  const { page, problems } = await openPage(context, origin, 'explore.html')
  const python = process.env.PYTHON ?? (existsSync('.venv/bin/python') ? '.venv/bin/python' : 'python3')
  const [cases, seen] = execFileSync(python, ['-c', PYTHON_CASES], { encoding: 'utf8', env: { ...process.env, PYTHONPATH: resolve('.') } })
    .trim().split('\n').map(line => JSON.parse(line))
  const worst = await page.evaluate(cases => {
    const { thin, unthin, nearestStochastic, gapLaw, l1 } = globalThis.hmmop
    const apart = (a, b) => Array.isArray(a) ? Math.max(...a.map((x, i) => apart(x, b[i]))) : Math.abs(a - b)
    return Math.max(...cases.flatMap(c => [
      apart(thin(c.T, c.psi), c.thin), apart(unthin(c.thin, c.told), c.unthin), apart(nearestStochastic(c.doubled), c.near),
      apart(gapLaw(c.T, c.psi, 9), c.gaps), apart(l1(c.thin, c.T), c.l1)]))
  }, cases)
  if (!(worst < 1e-10)) problems.push(`formulas of the page differ from Python by ${worst}`)
  const explorer = page.locator('.live[data-explorer="thinning"]')
  for (const [psi, distance] of Object.entries(seen)) {
    await explorer.locator('input[type=range]').fill(psi)
    const words = await explorer.locator('p').textContent()
    if (!words.includes(distance.toFixed(3))) problems.push(`at psi ${psi} the page says "${words}", Python ${distance}`)
  }
  const kinds = await page.locator('.live').evaluateAll(all => all.map(e => e.querySelectorAll('input').length > 16))
  if (kinds.length !== 3 || !kinds.every(Boolean)) problems.push(`explorers that were built: ${kinds}`)
  const frames = await page.locator('.frame-slider:visible').count()
  if (frames !== 2) problems.push(`${frames} explorers with frames are seen, not the two that cannot be computed here`)
  if (opt.shots) await page.screenshot({ path: join(opt.shots, 'live.png'), fullPage: true })
  await page.close()
  return { name: 'explorers', problems, note: `${cases.length} chains, at most ${worst.toExponential(1)} from Python` }
}

if (!existsSync(join(dir, 'index.html'))) { console.error(`no site in ${dir}: build it first`); process.exit(1) }
if (opt.shots) mkdirSync(opt.shots, { recursive: true })
const pages = readdirSync(dir, { recursive: true }).map(String).filter(f => f.endsWith('.html') && !f.startsWith('_static') && new RegExp(opt.only).test(f)).sort()
const server = await serve(), origin = `http://127.0.0.1:${server.address().port}`
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] })
const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: 'light' })
const results = []
try {
  for (const name of pages) results.push(await checkPage(context, origin, name))
  const byName = new Map(results.map(r => [r.name, r]))
  for (const r of results) r.note = `${r.maths} formulas, ${r.images.length} images, ${checkLinks(r, byName, origin)} links`
  results.push(await checkSearch(context, origin))
  if (byName.has('explore.html')) results.push(await checkLive(context, origin))
} finally {
  await browser.close()
  server.close()
}
for (const r of results) {
  console.log(`${r.problems.length ? 'FAIL' : 'ok  '} ${r.name}: ${r.note}`)
  for (const p of new Set(r.problems)) console.log(`       ${p}`)
}
const failed = results.filter(r => r.problems.length).length
console.log(`${results.length - failed} passed, ${failed} failed`)
process.exit(failed ? 1 : 0)
