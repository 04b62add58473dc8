# Finds nvJPEG's header. The library is found only so that programs find it again: it is loaded at run time
# (data/nvjpeg).
file(GLOB nvjpeg_folders "${torch_dir}/../nvidia/cu${torch_cuda}" "${torch_dir}/../nvidia/nvjpeg"
     "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu${torch_cuda}"
     "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/nvjpeg")
find_path(NVJPEG_INCLUDE_DIR nvjpeg.h HINTS ${nvjpeg_folders} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_library(NVJPEG_LIBRARY NAMES libnvjpeg.so.${torch_cuda} HINTS ${nvjpeg_folders} ${CUDAToolkit_LIBRARY_DIR}
             PATH_SUFFIXES lib)
if(NVJPEG_INCLUDE_DIR)
  set(DTRAIN_WITH_NVJPEG ON)
  message(STATUS "nvJPEG: ${NVJPEG_INCLUDE_DIR}")
  add_library(nvjpeg_header INTERFACE IMPORTED GLOBAL)
  # The folder comes after the toolkit's, because it may hold headers of CUDA as well.
  target_compile_options(nvjpeg_header INTERFACE "SHELL:-idirafter ${NVJPEG_INCLUDE_DIR}")
  target_compile_definitions(nvjpeg_header INTERFACE DTRAIN_WITH_NVJPEG)
  if(NVJPEG_LIBRARY)
    get_filename_component(nvjpeg_libraries "${NVJPEG_LIBRARY}" DIRECTORY)
    target_link_options(nvjpeg_header INTERFACE "-Wl,-rpath,${nvjpeg_libraries}")
  endif()
else()
  message(STATUS "nvJPEG: OFF (no --decode=gpu): nvjpeg.h was not found (PyPI's nvidia-nvjpeg, nvidia-nvjpeg-cu12).")
endif()
