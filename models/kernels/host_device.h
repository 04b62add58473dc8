// Marks functions that nvcc compiles for the GPU as well, and other compilers for the CPU alone.
#pragma once

#ifdef __CUDACC__
#define DTRAIN_HOST_DEVICE __host__ __device__
#define DTRAIN_UNROLL _Pragma("unroll")
#else
#define DTRAIN_HOST_DEVICE
#define DTRAIN_UNROLL
#endif
