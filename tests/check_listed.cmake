# Fails if a *_test.cc below FOLDER is not named in the file LISTED (one path per line).
cmake_policy(SET CMP0057 NEW)  # enables IN_LIST when this runs as a script
file(STRINGS ${LISTED} listed_files)
file(GLOB_RECURSE on_disk ${FOLDER}/*_test.cc)
foreach(file IN LISTS on_disk)
  if(NOT file IN_LIST listed_files)
    message(FATAL_ERROR "${file} is in no CMakeLists.txt: no build would run it.")
  endif()
endforeach()
