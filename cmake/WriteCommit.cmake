# cmake -DROOT=SOURCES -DCOMMIT=GIVEN -DOUTPUT=HEADER -P WriteCommit.cmake: writes the header, and touches it only if it
# changes.
if(COMMIT STREQUAL "")
  # Asks only the sources' own repository, not one into which an archive was unpacked.
  execute_process(COMMAND git -C ${ROOT} rev-parse --show-toplevel OUTPUT_VARIABLE top
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  file(REAL_PATH "${ROOT}" root)
  if(NOT failed AND top STREQUAL root)
    execute_process(COMMAND git -C ${ROOT} describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE COMMIT
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
string(REGEX REPLACE "[^0-9A-Za-z._-]" "" COMMIT "${COMMIT}")
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#define DTRAIN_COMMIT \"${COMMIT}\"\n" @ONLY)
