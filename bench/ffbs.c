/* Forward filtering, backward sampling for Gaussian emissions, twice: `ffbs_plain` takes one sequence at a time, `ffbs_lanes`
   carries LANES of them side by side, as the numba kernels do. Same random numbers as hmmop_nb, so the same states must come out.
   Compiled by tools/bench_known_gaps.py: gcc -O3 -march=native -fopenmp-simd -shared -fPIC. Sequences must not be empty; `order` sorts them, longest first. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef LANES
#define LANES 16
#endif

typedef struct {
    const double *values; const int64_t *offsets, *order; int64_t n;
    const double *start, *T, *mean, *scale; int64_t S;
    uint64_t key, stream, sweep;
    int64_t *counts, *first; double *sums, *squares, *log_likelihood; int16_t *states;
} Problem;

static inline void uniforms(uint64_t key, uint64_t stream, uint64_t sweep, uint64_t sequence, uint64_t step, double *u, double *w) {
    uint64_t c0 = step, c1 = sequence, c2 = sweep, c3 = stream, k0 = key & 0xFFFFFFFF, k1 = key >> 32;
    for (int r = 0; r < 10; r++) {
        uint64_t p0 = 0xD2511F53u * c0, p1 = 0xCD9E8D57u * c2;
        uint64_t d0 = (p1 >> 32) ^ c1 ^ k0, d2 = (p0 >> 32) ^ c3 ^ k1;
        c0 = d0; c1 = p1 & 0xFFFFFFFF; c2 = d2; c3 = p0 & 0xFFFFFFFF;
        k0 = (k0 + 0x9E3779B9u) & 0xFFFFFFFF; k1 = (k1 + 0xBB67AE85u) & 0xFFFFFFFF;
    }
    *u = fmin((((c0 >> 5) * 67108864. + (c1 >> 6)) + .5) * 0x1p-53, 1 - 0x1p-53);
    *w = fmin((((c2 >> 5) * 67108864. + (c3 >> 6)) + .5) * 0x1p-53, 1 - 0x1p-53);
}

void ffbs_plain(const Problem *p) {
    const int64_t S = p->S, longest = p->offsets[p->order[0] + 1] - p->offsets[p->order[0]];
    double *alpha = malloc(sizeof(double) * S * longest), *b = malloc(sizeof(double) * S), *running = malloc(sizeof(double) * S);
    double *columns = malloc(sizeof(double) * S * S), *c = malloc(sizeof(double) * S);
    for (int64_t i = 0; i < S; i++) for (int64_t j = 0; j < S; j++) columns[j * S + i] = p->T[i * S + j];
    for (int64_t s = 0; s < S; s++) c[s] = -log(p->scale[s]) - .5 * log(2 * M_PI);
    for (int64_t q = 0; q < p->n; q++) {
        const double *x = p->values + p->offsets[q];
        const int64_t N = p->offsets[q + 1] - p->offsets[q];
        double log_likelihood = 0, product = 1;
        for (int64_t t = 0; t < N; t++) {
            double *a = alpha + t * S, top = -INFINITY, total = 0;
            for (int64_t s = 0; s < S; s++) {
                double z = (x[t] - p->mean[s]) / p->scale[s];
                b[s] = c[s] - .5 * z * z;
                if (b[s] > top) top = b[s];
            }
            for (int64_t s = 0; s < S; s++) b[s] = exp(b[s] - top);
            if (t == 0) for (int64_t s = 0; s < S; s++) a[s] = p->start[s];
            else {
                for (int64_t s = 0; s < S; s++) a[s] = 0;
                for (int64_t i = 0; i < S; i++) for (int64_t j = 0; j < S; j++) a[j] += a[i - S] * p->T[i * S + j];
            }
            for (int64_t s = 0; s < S; s++) total += a[s] *= b[s];
            for (int64_t s = 0; s < S; s++) a[s] /= total;
            log_likelihood += top;
            if (product * total > 1e-150) product *= total;
            else { log_likelihood += log(product) + log(total); product = 1; }
        }
        p->log_likelihood[q] = log_likelihood + log(product);
        int64_t state = -1;
        double u[2];
        for (int64_t t = N - 1; t >= 0; t--) {
            double total = 0;
            if (t % 2 || t == N - 1) uniforms(p->key, p->stream, p->sweep, q, t / 2, u, u + 1);
            for (int64_t i = 0; i < S; i++) running[i] = total += alpha[t * S + i] * (state < 0 ? 1. : columns[state * S + i]);
            int64_t found = 0;
            while (found < S - 1 && running[found] <= u[t % 2] * total) found++;
            if (state >= 0) p->counts[found * S + state]++;
            double d = x[t] - p->mean[found];
            p->sums[found] += d; p->squares[found] += d * d;
            if (p->states) p->states[p->offsets[q] + t] = found;
            state = found;
        }
        p->first[state]++;
    }
    free(alpha); free(b); free(running); free(columns); free(c);
}

static inline double exp_below(double x) {
    static const double c[13] = {1, 1, 1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880, 1. / 3628800, 1. / 39916800, 1. / 479001600};
    double y = x > -708. ? x : -708., t = y * 1.4426950408889634 + 0x1.8p52, k = t - 0x1.8p52;
    double r = (y - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10, e = c[12];
    for (int i = 11; i >= 0; i--) e = e * r + c[i];
    int64_t bits; memcpy(&bits, &t, 8);
    bits = (int64_t)(((uint64_t)bits << 52) + ((uint64_t)1023 << 52));
    double power; memcpy(&power, &bits, 8);
    return x >= -708. ? e * power : 0.;
}

typedef double Lanes[LANES];
#define EACH_LANE _Pragma("omp simd") for (int l = 0; l < LANES; l++)

void ffbs_lanes(const Problem *p) {
    const int64_t S = p->S, longest = p->offsets[p->order[0] + 1] - p->offsets[p->order[0]];
    Lanes *alpha = aligned_alloc(64, sizeof(Lanes) * S * longest), *b = aligned_alloc(64, sizeof(Lanes) * S), *running = aligned_alloc(64, sizeof(Lanes) * S);
    double *columns = malloc(sizeof(double) * (S + 1) * S), *c = malloc(sizeof(double) * S), *q = malloc(sizeof(double) * S);
    for (int64_t i = 0; i < S; i++) {
        for (int64_t j = 0; j < S; j++) columns[i * (S + 1) + j] = p->T[i * S + j];
        columns[i * (S + 1) + S] = 1;
        c[i] = -log(p->scale[i]) - .5 * log(2 * M_PI);
        q[i] = -.5 / (p->scale[i] * p->scale[i]);
    }
    for (int64_t begin = 0; begin < p->n; begin += LANES) {
        const int64_t width = p->n - begin < LANES ? p->n - begin : LANES;
        int64_t at[LANES] = {0}, N[LANES] = {0}, seq[LANES] = {0}, state[LANES], found[LANES];
        for (int64_t l = 0; l < width; l++) { seq[l] = p->order[begin + l]; at[l] = p->offsets[seq[l]]; N[l] = p->offsets[seq[l] + 1] - at[l]; }
        Lanes x = {0}, top, total, product, log_likelihood = {0}, u[2] = {{0}};
        EACH_LANE product[l] = 1, state[l] = S;
        for (int64_t t = 0; t < N[0]; t++) {
            Lanes *a = alpha + t * S;
            for (int l = 0; l < width; l++) if (t < N[l]) x[l] = p->values[at[l] + t];
            EACH_LANE { top[l] = -1e290; total[l] = 0; }
            for (int64_t s = 0; s < S; s++) {
                const double m = p->mean[s], cs = c[s], qs = q[s];
                EACH_LANE { double d = x[l] - m; b[s][l] = cs + d * d * qs; }
                EACH_LANE top[l] = b[s][l] > top[l] ? b[s][l] : top[l];
            }
            for (int64_t s = 0; s < S; s++) EACH_LANE b[s][l] = exp_below(b[s][l] - top[l]);
            for (int64_t j = 0; j < S; j++) {
                Lanes sum;
                if (t == 0) EACH_LANE sum[l] = p->start[j];
                else {
                    EACH_LANE sum[l] = 0;
                    for (int64_t i = 0; i < S; i++) { const double w = p->T[i * S + j]; EACH_LANE sum[l] += a[i - S][l] * w; }
                }
                EACH_LANE { a[j][l] = sum[l] * b[j][l]; total[l] += a[j][l]; }
            }
            Lanes inverse;
            EACH_LANE inverse[l] = 1 / total[l];
            for (int64_t s = 0; s < S; s++) EACH_LANE a[s][l] *= inverse[l];
            for (int l = 0; l < width; l++) if (t < N[l]) {
                log_likelihood[l] += top[l];
                if (product[l] * total[l] > 1e-150) product[l] *= total[l];
                else { log_likelihood[l] += log(product[l]) + log(total[l]); product[l] = 1; }
            }
        }
        for (int64_t l = 0; l < width; l++) p->log_likelihood[seq[l]] = log_likelihood[l] + log(product[l]);
        for (int64_t t = N[0] - 1; t >= 0; t--) {
            Lanes *a = alpha + t * S;
            if (t % 2 || t == N[0] - 1) for (int l = 0; l < width; l++) uniforms(p->key, p->stream, p->sweep, seq[l], t / 2, &u[0][l], &u[1][l]);
            Lanes sum = {0};
            for (int64_t i = 0; i < S; i++) EACH_LANE { sum[l] += a[i][l] * columns[i * (S + 1) + state[l]]; running[i][l] = sum[l]; }
            EACH_LANE { sum[l] *= u[t % 2][l]; found[l] = 0; }
            for (int64_t i = 0; i < S; i++) EACH_LANE found[l] += running[i][l] <= sum[l];
            for (int64_t l = 0; l < width; l++) if (t < N[l]) {
                const int64_t s = found[l];
                if (state[l] < S) p->counts[s * S + state[l]]++;
                double d = p->values[at[l] + t] - p->mean[s];
                p->sums[s] += d; p->squares[s] += d * d;
                if (p->states) p->states[at[l] + t] = s;
                state[l] = s;
            }
        }
        for (int64_t l = 0; l < width; l++) p->first[state[l]]++;
    }
    free(alpha); free(b); free(running); free(columns); free(c); free(q);
}
