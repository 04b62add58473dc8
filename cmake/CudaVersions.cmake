# Decides which versions of CUDA fit together. It is separate from Cuda.cmake so that a test can try the combinations.
#
# dtrain_cuda_problem(RESULT TORCH_CUDA TOOLKIT ARCHITECTURES): returns a sentence that says what does not fit, or
# nothing. TORCH_CUDA is the major version for which LibTorch was built, TOOLKIT is nvcc's version, and ARCHITECTURES is
# a list like CMAKE_CUDA_ARCHITECTURES.
function(dtrain_cuda_problem result torch_cuda toolkit architectures)
  set(problem "")
  string(REGEX MATCH "^[0-9]+" toolkit_major "${toolkit}")
  if(NOT torch_cuda MATCHES "^(12|13)$")
    set(problem "LibTorch is built for CUDA ${torch_cuda}; one for CUDA 12 or 13 is needed.")
  elseif(NOT toolkit_major STREQUAL torch_cuda)
    set(problem "LibTorch is built for CUDA ${torch_cuda}, nvcc is of CUDA ${toolkit}: use a toolkit of the same major "
                "version (CMAKE_CUDA_COMPILER, or the PATH), or another LibTorch.")
    string(CONCAT problem ${problem})
  else()
    foreach(architecture IN LISTS architectures)
      if(NOT architecture MATCHES "^([0-9]+)[af]?(-real|-virtual)?$")
        set(problem "DTRAIN_CUDA_ARCHITECTURES has '${architecture}'; entries are like 80, 80-real, 80-virtual.")
      elseif(CMAKE_MATCH_1 LESS 75 AND toolkit_major GREATER_EQUAL 13)
        set(problem "CUDA ${toolkit} compiles for 7.5 and newer, DTRAIN_CUDA_ARCHITECTURES has ${architecture}: older "
                    "GPUs (7.0: V100) need a toolkit and a LibTorch of CUDA 12.")
        string(CONCAT problem ${problem})
      elseif(CMAKE_MATCH_1 LESS 70)
        set(problem "DTRAIN_CUDA_ARCHITECTURES has ${architecture}; 7.0 is the oldest that LibTorch 2.11 supports.")
      endif()
    endforeach()
  endif()
  set(${result} "${problem}" PARENT_SCOPE)
endfunction()

# dtrain_cuda_architectures(RESULT TOOLKIT): returns the GPUs that kernels are compiled for by default: machine code for
# each that nvcc of this version knows, and portable code of one of them for those that it does not know.
function(dtrain_cuda_architectures result toolkit)
  set(architectures "75-real;80-real;86-real;89-real;90")
  if(toolkit VERSION_GREATER_EQUAL 12.8)
    string(APPEND architectures ";100-real;120-real")
  endif()
  set(${result} "${architectures}" PARENT_SCOPE)
endfunction()

# dtrain_torch_cuda(RESULT TORCH_DIR): returns the major version of CUDA that this LibTorch's library asks the loader
# for, or nothing if it was built without CUDA. The wheel and the official archive write the version down in different
# places, but both have this one.
function(dtrain_torch_cuda result torch_dir)
  set(version "")
  if(EXISTS "${torch_dir}/lib/libc10_cuda.so")
    file(STRINGS "${torch_dir}/lib/libc10_cuda.so" names REGEX "libcudart[-0-9a-f]*\\.so\\.[0-9]+")
    if("${names}" MATCHES "libcudart[-0-9a-f]*\\.so\\.([0-9]+)")
      set(version ${CMAKE_MATCH_1})
    endif()
  endif()
  set(${result} "${version}" PARENT_SCOPE)
endfunction()
