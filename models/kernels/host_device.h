// Marks functions that nvcc compiles for the GPU as well, and other compilers for the CPU alone; and loops that a GPU's
// code must unroll, because arrays stay in registers only if their indices are constants.
#pragma once

#ifdef __CUDACC__
#define DTRAIN_HOST_DEVICE __host__ __device__
#else
#define DTRAIN_HOST_DEVICE
#endif

#ifdef __CUDA_ARCH__
#define DTRAIN_UNROLL _Pragma("unroll")
#else
#define DTRAIN_UNROLL
#endif
