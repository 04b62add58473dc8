// Marks functions that are compiled for several processors; one version is chosen when the program is loaded. The names
// are those of instruction sets and not of processors, which other makers' processors with the same sets would not be.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DTRAIN_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DTRAIN_VECTOR_CLONES  // ifunc resolvers run before a sanitizer is ready
#endif
