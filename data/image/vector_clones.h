// DTRAIN_WITH_AVX2 before a function: it is compiled twice, and the processor chooses. For code whose results do not
// depend on how wide its vectors are.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DTRAIN_WITH_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define DTRAIN_WITH_AVX2  // ifuncs run before a sanitizer is ready
#endif
