# Stops when a *_test.cc below FOLDER is not named in the file LISTED (one path a line).
cmake_policy(SET CMP0057 NEW)  # IN_LIST, where this is run as a script
file(STRINGS ${LISTED} listed_files)
file(GLOB_RECURSE on_disk ${FOLDER}/*_test.cc)
foreach(file IN LISTS on_disk)
  if(NOT file IN_LIST listed_files)
    message(FATAL_ERROR "${file} is in no CMakeLists.txt: no build would run it.")
  endif()
endforeach()
