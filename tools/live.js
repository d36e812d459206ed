// Explorers that compute in the page: thinning, the law of a gap, and reconstruction with a psi that may be wrong.
// A marker <div class="live" data-explorer="thinning"></div> becomes an explorer, and the frames drawn beforehand that follow
// it are put away. The formulas are those of hmmop_nb.transforms and hmmop_nb.gaps; the browser check compares the two.
(() => {
  const map = (A, f) => A.map((row, i) => row.map((x, j) => f(x, i, j)))
  const times = (A, B) => A.map(row => B[0].map((_, j) => row.reduce((sum, x, k) => sum + x * B[k][j], 0)))
  const each = (psi, n) => Array.isArray(psi) ? psi : Array(n).fill(psi)

  // X with A X = B, by elimination with the largest pivot
  function solve(A, B) {
    const n = A.length, M = A.map((row, i) => [...row, ...B[i]])
    for (let k = 0; k < n; k++) {
      let best = k
      for (let i = k + 1; i < n; i++) if (Math.abs(M[i][k]) > Math.abs(M[best][k])) best = i
      ;[M[k], M[best]] = [M[best], M[k]]
      for (let i = 0; i < n; i++) if (i !== k) {
        const factor = M[i][k] / M[k][k]
        for (let j = k; j < M[i].length; j++) M[i][j] -= factor * M[k][j]
      }
    }
    return M.map((row, i) => row.slice(n).map(x => x / row[i]))
  }

  const identityMinus = (T, weights) => map(T, (x, i, j) => (i === j) - x * weights[j])

  // R = (I - T D)^-1 T K with D = diag(psi), K = I - D
  function thin(T, psi) {
    const d = each(psi, T.length)
    return solve(identityMinus(T, d), map(T, (x, i, j) => x * (1 - d[j])))
  }

  // T = R (K + D R)^-1, the inverse of the above: transposed, since solve divides from the left
  function unthin(R, psi) {
    const d = each(psi, R.length), t = A => A[0].map((_, j) => A.map(row => row[j]))
    return t(solve(t(map(R, (x, i, j) => (i === j) * (1 - d[i]) + d[i] * x)), t(R)))
  }

  // Each row projected on the probability simplex
  const nearestStochastic = T => T.map(row => {
    const u = [...row].sort((a, b) => b - a)
    let sum = 0, theta = 0
    u.forEach((x, k) => { sum += x; if (x > (sum - 1) / (k + 1)) theta = (sum - 1) / (k + 1) })
    const y = row.map(x => Math.max(x - theta, 0)), total = y.reduce((a, b) => a + b)
    return y.map(x => x / total)
  })

  // P(d omitted visits | neighbours i and j), d = 0, ..., most
  function gapLaw(T, psi, most) {
    const d = each(psi, T.length), R = thin(T, psi), law = []
    let G = T
    for (let n = 0; n <= most; n++) {
      law.push(map(G, (x, i, j) => R[i][j] > 0 ? x * (1 - d[j]) / R[i][j] : 0))
      G = times(map(G, (x, i, j) => x * d[j]), T)
    }
    return map(T, (_, i, j) => law.map(A => A[i][j]))
  }

  // Mean over rows of the summed absolute differences
  const l1 = (A, B) => A.reduce((sum, row, i) => sum + row.reduce((s, x, j) => s + Math.abs(x - B[i][j]), 0), 0) / A.length

  // ---- what a reader sees ----
  const RING = [[.15, .85, 0, 0], [0, .15, .85, 0], [0, 0, .15, .85], [.85, 0, 0, .15]]
  const CHAIN = [[.1, .8, .1, 0], [0, .1, .8, .1], [.1, 0, .1, .8], [.8, .1, 0, .1]]
  const normalised = T => T.map(row => {
    const sum = row.reduce((a, b) => a + b)
    return row.map(x => sum > 0 ? x / sum : 1 / row.length)
  })

  function element(tag, attributes = {}, ...children) {
    const e = document.createElement(tag)
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value)
    e.append(...children)
    return e
  }

  // Probabilities as a table, darker is more; negative ones are red
  function shown(title, A) {
    const cell = x => {
      const text = x.toFixed(2).replace('-0.00', '0.00'), share = Math.round(85 * Math.min(1, Math.abs(x)))
      const color = x < -.005 ? '#c0392b' : '#2171b5'
      return element('td', { style: `background: color-mix(in srgb, ${color} ${share}%, transparent)` }, text)
    }
    return element('figure', {}, element('figcaption', {}, title),
      element('table', {}, element('tbody', {}, ...A.map(row => element('tr', {}, ...row.map(cell))))))
  }

  // A table of numbers that can be changed; rows are divided by their sums
  function matrixKnob(first, changed) {
    const inputs = first.map((row, i) => row.map((x, j) => element('input',
      { type: 'number', min: 0, max: 1, step: .05, value: x, 'aria-label': `weight of the step from ${i} to ${j}` })))
    inputs.flat().forEach(input => input.addEventListener('input', changed))
    const body = element('tbody', {}, ...inputs.map(row => element('tr', {}, ...row.map(i => element('td', {}, i)))))
    const knob = element('figure', {}, element('figcaption', {}, 'your chain T: change any number'), element('table', {}, body))
    knob.read = () => normalised(inputs.map(row => row.map(i => Math.max(0, Number(i.value) || 0))))
    return knob
  }

  function slider(name, value, changed, max = .95) {
    const input = element('input', { type: 'range', min: 0, max, step: .01, value }), output = element('output', {}, value.toFixed(2))
    input.addEventListener('input', () => { output.textContent = Number(input.value).toFixed(2); changed() })
    const knob = element('label', {}, `${name} `, input, ' ', output)
    knob.read = () => Number(input.value)
    return knob
  }

  function choice(name, values, value, changed) {
    const select = element('select', {}, ...values.map(v => element('option', v === value ? { value: v, selected: '' } : { value: v }, v)))
    select.addEventListener('input', changed)
    const knob = element('label', {}, `${name} `, select)
    knob.read = () => Number(select.value)
    return knob
  }

  const EXPLORERS = {
    thinning(redraw) {
      const psi = slider('ψ, the share of visits that is lost', .5, redraw)
      return { knobs: [psi], draw(T) {
        const R = thin(T, psi.read())
        return [shown('T, one step', T), shown('R, what neighbours in the list show', R), `L1 distance of R from T: ${l1(R, T).toFixed(3)}`]
      } }
    },
    gaps(redraw) {
      const psi = slider('ψ', .5, redraw), from = choice('from state', [0, 1, 2, 3], 0, redraw), to = choice('to state', [0, 1, 2, 3], 2, redraw)
      return { knobs: [psi, from, to], chain: RING, draw(T) {
        const p = psi.read(), whole = gapLaw(T, p, 800)[from.read()][to.read()], law = whole.slice(0, 13), mean = whole.reduce((s, x, d) => s + d * x, 0)
        if (!whole.some(x => x > 0)) return [element('span'), 'These two can never be neighbours in a list of this chain.']
        const bar = (x, kind) => element('span', { class: kind, style: `height: ${(7 * x).toFixed(3)}em` })
        const bars = law.map((x, d) => element('span', { class: 'pair' }, bar(x, 'law'), bar((1 - p) * p ** d, 'guess'), element('small', {}, d)))
        const words = `Lost visits between the two: 0 to 12. Blue: P(d | i, j), mean ${mean.toFixed(2)}; grey: without a look at the states, mean ${(p / (1 - p)).toFixed(2)}.`
        return [element('div', { class: 'bars', role: 'img', 'aria-label': words }, ...bars), words]
      } }
    },
    'wrong psi'(redraw) {
      const truth = slider('ψ that made the data', .5, redraw), told = slider('ψ that you believe', .3, redraw)
      return { knobs: [truth, told], draw(T) {
        const raw = unthin(thin(T, truth.read()), told.read()), near = nearestStochastic(raw), low = Math.min(...raw.flat())
        const verdict = low < -1e-9 ? `No chain fits: the smallest entry would be ${low.toFixed(3)}, so that unlimited data refute this ψ. Shown is the nearest chain.`
          : 'A chain that fits the data without error: nothing in them speaks against this ψ.'
        return [shown('the truth', T), shown('what you learn', near), `L1 error ${l1(near, T).toFixed(3)}. ${verdict}`]
      } }
    },
  }

  function build(marker) {
    let drawn = () => {}
    const redraw = () => drawn(), { knobs, draw, chain = CHAIN } = EXPLORERS[marker.dataset.explorer](redraw), T = matrixKnob(chain, redraw)
    const panels = element('div', { class: 'panels' }), words = element('p', { 'aria-live': 'polite' })
    drawn = () => {
      const [text, ...rest] = draw(T.read()).reverse()
      panels.replaceChildren(...rest.reverse())
      words.textContent = text
    }
    marker.replaceChildren(element('div', { class: 'knobs' }, ...knobs, T), panels, words)
    const frames = [...document.querySelectorAll('.frame-slider')].find(e => marker.compareDocumentPosition(e) & 4)
    if (frames) frames.hidden = true
    drawn()
  }

  globalThis.hmmop = { thin, unthin, nearestStochastic, gapLaw, l1 }
  if (typeof document !== 'undefined') document.querySelectorAll('.live').forEach(build)
})()
