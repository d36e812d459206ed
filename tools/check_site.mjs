// Open every page of the built site in a real browser and check what a reader would meet.
// node tools/check_site.mjs [_docs] [--npm .venv/npm/node_modules] [--word omission] [--shots DIR]
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { extname, join, normalize, resolve } from 'node:path'
import { parseArgs } from 'node:util'

const { values: opt, positionals: [folder = '_docs'] } = parseArgs({ allowPositionals: true, options: {
  npm: { type: 'string', default: '.venv/npm/node_modules' },
  word: { type: 'string', default: 'omission' }, shots: { type: 'string' } } })
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
  const maths = [...document.querySelectorAll('.math')]
  return {
    ids: [...document.querySelectorAll('[id]')].map(e => e.id),
    links: [...document.querySelectorAll('a[href]')].map(a => a.href),
    images: [...document.images].map(i => ({ src: i.currentSrc || i.src, ok: i.complete && i.naturalWidth > 0 })),
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

if (!existsSync(join(dir, 'index.html'))) { console.error(`no site in ${dir}: build it first`); process.exit(1) }
if (opt.shots) mkdirSync(opt.shots, { recursive: true })
const pages = readdirSync(dir, { recursive: true }).map(String).filter(f => f.endsWith('.html') && !f.startsWith('_static')).sort()
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
