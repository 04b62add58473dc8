// DTRAIN_WITH_AVX2 before a function compiles it twice, with and without AVX2; the loader picks one for the processor.
// It is for functions whose results do not depend on the width of vectors.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DTRAIN_WITH_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define DTRAIN_WITH_AVX2  // ifunc resolvers run before a sanitizer is ready
#endif
