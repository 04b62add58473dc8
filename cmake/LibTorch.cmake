# LibTorch, linked library by library: find_package(Torch) of the CUDA wheel fails on a machine without a CUDA toolkit,
# and a CPU build needs only libtorch_cpu and libc10.
#
# DTRAIN_TORCH_DIR names the folder that holds include/ and lib/: the torch package of a `pip install torch`, or the
# unpacked official archive. If it is not set, the project's own environment (.venv, made by scripts/setup.sh) is used.
set(DTRAIN_TORCH_DIR "$ENV{DTRAIN_TORCH_DIR}" CACHE PATH "LibTorch: the folder with include/ and lib/")
set(DTRAIN_TORCH_VERSION 2.11)

set(torch_dir "${DTRAIN_TORCH_DIR}")
if(NOT torch_dir)
  file(GLOB torch_dir "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
endif()
if(NOT EXISTS "${torch_dir}/include/torch/csrc/api/include/torch/version.h")
  message(FATAL_ERROR "LibTorch was not found in '${torch_dir}'. Run scripts/setup.sh, or name an existing one: "
                      "cmake -DDTRAIN_TORCH_DIR=DIR (the folder with include/ and lib/).")
endif()

file(GLOB_RECURSE version_headers "${torch_dir}/include/torch/headeronly/version.h"
     "${torch_dir}/include/torch/csrc/api/include/torch/version.h")
set(torch_version "")
foreach(header IN LISTS version_headers)
  file(STRINGS "${header}" lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR) [0-9]+")
  if(lines)
    string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
    list(JOIN numbers "." torch_version)
  endif()
endforeach()
if(NOT torch_version STREQUAL DTRAIN_TORCH_VERSION)
  message(FATAL_ERROR "LibTorch ${DTRAIN_TORCH_VERSION} is needed (the constructor of c10d::Reducer changes between "
                      "versions); ${torch_dir} holds ${torch_version}. Run scripts/setup.sh, or name another one with "
                      "-DDTRAIN_TORCH_DIR=DIR.")
endif()
message(STATUS "LibTorch ${torch_version} in ${torch_dir}")

add_library(LibTorch::cpu INTERFACE IMPORTED)
target_include_directories(LibTorch::cpu SYSTEM INTERFACE "${torch_dir}/include"
                                                          "${torch_dir}/include/torch/csrc/api/include")
target_compile_definitions(LibTorch::cpu INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_link_libraries(LibTorch::cpu INTERFACE "${torch_dir}/lib/libtorch_cpu.so" "${torch_dir}/lib/libc10.so")
# At run time libtorch_cpu finds libcudart and libcupti by its own RPATH; the linker need not find them.
target_link_options(LibTorch::cpu INTERFACE -Wl,--allow-shlib-undefined -Wl,-rpath,${torch_dir}/lib)

# Reading the headers of torch (precompiled too), JSON and GoogleTest takes longer than compiling the rest of a file. So
# several files of a target are compiled as one. DTRAIN_UNITY=OFF compiles each file alone, which finds missing
# includes.
option(DTRAIN_UNITY "Compile several files of a target at once" ON)
function(dtrain_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${DTRAIN_UNITY} UNITY_BUILD_BATCH_SIZE 6)
  if(DTRAIN_UNITY)  # GCC takes a type of a single file for one of a header
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# dtrain_uses_torch(TARGET): for every target that includes torch.
add_library(torch_pch STATIC ${CMAKE_SOURCE_DIR}/cmake/torch_pch.cc)
target_link_libraries(torch_pch PUBLIC LibTorch::cpu)
target_precompile_headers(torch_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/torch_pch.h)
function(dtrain_uses_torch target)
  target_link_libraries(${target} PUBLIC torch_pch)
  target_precompile_headers(${target} REUSE_FROM torch_pch)
  # By default GCC collects garbage every few hundred megabytes, which takes an eighth of the time of such a file. This
  # costs 1 GiB per job.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1048576>)
  dtrain_compile_together(${target})
endfunction()

include(Cuda)  # DTRAIN_WITH_CUDA, and LibTorch::cuda if that is on
