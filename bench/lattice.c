/* The lattice sampler of nbs/engine/lattice.ipynb in C, for comparison: one sweep over all sequences on one core.
   Same recursion, same column scales, same counter-based random numbers; everything kept in memory (no checkpoints). */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define RESCALE 8
#define CAP 1e30

static void uniforms(uint64_t key, uint32_t stream, uint32_t sweep, uint32_t sequence, uint32_t step, double *u, double *w)
{
    uint32_t c0 = step, c1 = sequence, c2 = sweep, c3 = stream, k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int r = 0; r < 10; r++) {
        uint64_t p0 = 0xD2511F53ULL * c0, p1 = 0xCD9E8D57ULL * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0; c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1; c3 = (uint32_t)p0;
        k0 += 0x9E3779B9; k1 += 0xBB67AE85;
    }
    *u = (((c0 >> 5) * 67108864. + (c1 >> 6)) + .5) * 0x1p-53;
    *w = (((c2 >> 5) * 67108864. + (c3 >> 6)) + .5) * 0x1p-53;
}

static int lowest(int t, int N, int K) { int lo = K - (N - 1 - t); return lo > 0 ? lo : 0; }
static int highest(int t, int K) { return t + 1 < K ? t + 1 : K; }

static int padded(int width) { return (width + 7) / 8 * 8; }

/* out[s][1 + j] = sum over i of M[i][s] rows[i][j], zeros on both sides */
static void mix(int S, const double *restrict M, const double *restrict rows, int W, int width, double *restrict out, int V)
{
    int single = S % 5;
    for (int s = 0; s < S; s++)
        for (int j = 0; j < width + 10; j++) out[s * V + j] = 0;
    for (int i = 0; i < single; i++)
        for (int s = 0; s < S; s++) {
            const double *restrict r = rows + i * W, c = M[i * S + s];
            double *restrict o = out + s * V + 1;
            for (int j = 0; j < width; j++) o[j] += c * r[j];
        }
    for (int i = single; i < S; i += 5) {
        const double *restrict r0 = rows + i * W, *restrict r1 = r0 + W, *restrict r2 = r1 + W, *restrict r3 = r2 + W, *restrict r4 = r3 + W;
        for (int s = 0; s < S; s++) {
            const double *m = M + i * S + s;
            double *restrict o = out + s * V + 1, c0 = m[0], c1 = m[S], c2 = m[2 * S], c3 = m[3 * S], c4 = m[4 * S];
            for (int j = 0; j < width; j++) o[j] += (c0 * r0[j] + c1 * r1[j]) + (c2 * r2[j] + c3 * r3[j]) + c4 * r4[j];
        }
    }
}

static void advance(const double *prev, double *here, double *v, double *logs, int t, int N, int K, int S, int W,
                    const double *T, const double *start, const double *psi, const double *seen, int ld)
{
    int lo = lowest(t, N, K), was = lowest(t - 1, N, K), d = lo - was;
    int used = highest(t, K) - lo + 1, width = padded(used), before = highest(t - 1, K) - was + 1;
    double *restrict ratio = here + S * W;
    for (int j = 0; j < width; j++) ratio[j] = t > 0 && j + d < before ? prev[S * W + j + d] : 1;
    if (t) mix(S, T, prev, W, padded(before), v, W + 24);
    else
        for (int s = 0; s < S; s++)
            for (int j = 0; j < 18; j++) v[s * (W + 24) + j] = j == 1 ? start[s] : 0;
    for (int s = 0; s < S; s++) {
        const double *restrict left = v + s * (W + 24) + d, *restrict row = seen + s * ld + lo;
        double *restrict out = here + s * W, p = psi[s];
        for (int j = 0; j < width; j++) out[j] = p * left[j + 1] + row[j] * (ratio[j] * left[j]);
    }
    if (t < K) logs[t + 1] = logs[t];
    if (t % RESCALE != RESCALE - 1) return;
    double total[used], left = 0;
    for (int j = 0; j < used; j++) total[j] = 0;
    for (int s = 0; s < S; s++)
        for (int j = 0; j < used; j++) total[j] += here[s * W + j];
    for (int j = 0; j < used; j++) {
        double grow = fmax(fmax(total[j], ratio[j] * left / CAP), 1e-290);
        ratio[j] *= left / grow;
        logs[lo + j] += log(grow);
        total[j] = 1 / grow;
        left = grow;
    }
    for (int s = 0; s < S; s++)
        for (int j = 0; j < used; j++) here[s * W + j] *= total[j];
}

static int pick(int S, const double *c, const double *rows, int W, double u, double total)
{
    int last = 0;
    u *= total;
    for (int i = 0; i < S; i++) {
        double w = c[i] * rows[i * W];
        if (w > 0) last = i;
        u -= w;
        if (u < 0) break;
    }
    return last;
}

/* b: (observations, S) scaled likelihoods; counts: (S, S) transitions, (S) first, (S) omitted; labels, places: one per observation */
void lattice_sweep(const double *b, const int64_t *offsets, const int64_t *n_steps, int64_t n, int64_t S_, const double *T, const double *start,
                   const double *psi, uint64_t key, int64_t stream, int64_t sweep, int64_t *counts, int64_t *first, int64_t *omitted,
                   int64_t *labels, int64_t *places, double *loglik)
{
    int S = (int)S_, Kmax = 0, W = 2, Nmax = 0;
    for (int64_t i = 0; i < n; i++) {
        int K = (int)(offsets[i + 1] - offsets[i]), N = (int)n_steps[i], w = (K < N - K ? K : N - K) + 2;
        if (K > Kmax) Kmax = K;
        if (w > W) W = w;
        if (N > Nmax) Nmax = N;
    }
    W = padded(W - 1);
    double *a = malloc(sizeof(double) * Nmax * (S + 1) * W), *v = malloc(sizeof(double) * S * (W + 24)), *logs = malloc(sizeof(double) * (Kmax + 2));
    double *seen = calloc(S * (Kmax + 17), sizeof(double)), *TT = malloc(sizeof(double) * S * S), *ones = malloc(sizeof(double) * S);
    for (int s = 0; s < S; s++) { ones[s] = 1; for (int i = 0; i < S; i++) TT[s * S + i] = T[i * S + s]; }
    for (int64_t q = 0; q < n; q++) {
        int K = (int)(offsets[q + 1] - offsets[q]), N = (int)n_steps[q], slice = (S + 1) * W, ld = Kmax + 17;
        const double *bq = b + offsets[q] * S;
        int64_t *label = labels + offsets[q], *place = places + offsets[q];
        for (int s = 0; s < S; s++) {
            seen[s * ld] = 0;
            for (int k = 0; k < K; k++) seen[s * ld + k + 1] = (1 - psi[s]) * bq[k * S + s];
        }
        logs[0] = 0;
        for (int t = 0; t < N; t++) advance(a + (t ? t - 1 : 0) * (int64_t)slice, a + t * (int64_t)slice, v, logs, t, N, K, S, W, T, start, psi, seen, ld);
        const double *last = a + (N - 1) * (int64_t)slice;
        double total = 0, u, w;
        for (int s = 0; s < S; s++) total += last[s * W];
        loglik[q] = log(total) + logs[K];
        if (!(total > 0)) continue;
        uniforms(key, (uint32_t)stream, (uint32_t)sweep, (uint32_t)q, N, &u, &w);
        int x = pick(S, ones, last, W, u, total), k = K;
        for (int t = N - 1; t > 0; t--) {
            const double *prev = a + (t - 1) * (int64_t)slice, *c = TT + x * S;
            int lo = lowest(t - 1, N, K), hi = highest(t - 1, K), j = k - lo;
            double stay = 0, left = 0, both = 0;
            if (k <= hi) for (int y = 0; y < S; y++) stay += c[y] * prev[y * W + j];
            if (j > 0) for (int y = 0; y < S; y++) left += c[y] * prev[y * W + j - 1];
            double ws = stay * psi[x], wl = j > 0 ? left * seen[x * ld + k] * (k <= hi ? prev[S * W + j] : 1) : 0;
            uniforms(key, (uint32_t)stream, (uint32_t)sweep, (uint32_t)q, t, &u, &w);
            if (u * (ws + wl) < wl) { k--; label[k] = x; place[k] = t; both = left; }
            else { omitted[x]++; both = stay; }
            int y = pick(S, c, prev + (k - lo), W, w, both);
            counts[y * S + x]++;
            x = y;
        }
        if (k) { label[0] = x; place[0] = 0; }
        else omitted[x]++;
        first[x]++;
    }
    free(a); free(v); free(logs); free(seen); free(TT); free(ones);
}
