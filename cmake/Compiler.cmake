# The compiler options of all targets of this project: warnings, sanitizers, compiler cache.
option(DTRAIN_WERROR "Treat warnings as errors" OFF)
set(DTRAIN_SANITIZE "" CACHE STRING "Sanitizers to build with, e.g. address,undefined or thread")

# -fPIC for executables too: a precompiled header is valid for one set of flags only.
add_compile_options(-fPIC)
add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor)
if(DTRAIN_WERROR)
  add_compile_options(-Werror)
endif()
option(DTRAIN_FUZZ "Build libFuzzer's targets too (with clang; target `fuzzers`, see tests/fuzz)" OFF)
if(DTRAIN_FUZZ)
  add_compile_options(-fno-sanitize-recover=all)  # a finding must end the program
endif()
if(DTRAIN_SANITIZE)
  add_compile_options(-fsanitize=${DTRAIN_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${DTRAIN_SANITIZE})
  # GCC then takes guards in the headers of torch and of std::regex for uninitialised.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # Without these settings, ccache does not cache any file that uses a precompiled header.
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fpch-preprocess>)
endif()
