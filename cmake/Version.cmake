# The commit from which the programs are built. Git is asked at each build, because CMake does not configure again after
# a new commit. Sources without git (an archive, an image's context) have no commit unless one is given.
set(DTRAIN_COMMIT "" CACHE STRING "The commit of these sources, where git cannot be asked")
add_custom_target(commit_header
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR} "-DCOMMIT=${DTRAIN_COMMIT}"
          -DOUTPUT=${CMAKE_BINARY_DIR}/generated/dtrain_commit.h -P ${CMAKE_SOURCE_DIR}/cmake/WriteCommit.cmake
  BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/dtrain_commit.h
  COMMENT "Asking git for the commit")
add_library(version STATIC ${CMAKE_SOURCE_DIR}/data/command_line/version.cc)
target_include_directories(version PRIVATE ${CMAKE_BINARY_DIR}/generated)
target_compile_definitions(version PRIVATE DTRAIN_VERSION="${PROJECT_VERSION}")
add_dependencies(version commit_header)
