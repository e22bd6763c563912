# One folder, one target: cohort_module(NAME [THREADS] USES other modules… LIBRARIES third parties…) makes the static library
# cohort_NAME from the folder's sources and, where there are *_test.cpp files, the test program NAME_test, which also
# gets the TEST_SOURCES (of tests/, included as "tests/…"). PROTOS foo.proto… are compiled too; .cpp files include
# "NAME/foo.pb.h". Where sources are compiled together (COHORT_BATCH), those of ALONE are not: they have private names that
# others of their module have too.

add_library(cohort_options INTERFACE)
target_compile_features(cohort_options INTERFACE cxx_std_20)
target_compile_options(cohort_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror
  # g++ 12 sees overlaps in std::string that are not there (GCC bug 105651).
  -Wno-restrict
  # g++ takes sources that are compiled together for headers.
  $<$<AND:$<NOT:$<EQUAL:${COHORT_BATCH},1>>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>
  # clang does not know all warnings of g++ that are switched off here.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-warning-option>
  # The same bits from every compiler choice: no fused multiply-adds that the source does not ask for.
  -ffp-contract=off
  # Let loops with square roots vectorise; nothing here reads errno or traps after arithmetic.
  -fno-math-errno -fno-trapping-math)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(cohort_options INTERFACE -march=x86-64-v3)
endif()
if(COHORT_SANITIZE)
  target_compile_options(cohort_options INTERFACE -fsanitize=${COHORT_SANITIZE} -fno-omit-frame-pointer -g1)
  # Instrumented code makes g++ 12 see uninitialised members inside std::regex that are not (its documentation warns so).
  target_compile_options(cohort_options INTERFACE -Wno-maybe-uninitialized)
  target_link_options(cohort_options INTERFACE -fsanitize=${COHORT_SANITIZE})
endif()
if(COHORT_FUZZ)
  # Every finding ends the program, which is how libFuzzer learns of it; indices of the standard library's types are checked.
  target_compile_options(cohort_options INTERFACE -fno-sanitize-recover=all -D_GLIBCXX_ASSERTIONS)
endif()

# What the sanitizers run: all unit tests, and those of modules with threads of their own.
if(COHORT_TESTS)
  add_custom_target(unit_tests)
  add_custom_target(threaded_tests)
endif()

# Replaces the sources in the list by files that include COHORT_BATCH of them each, but for those of `alone`. (CMake's unity builds
# include by absolute paths, so that a compiler cache would know no other clone's objects.)
function(cohort_batches list name alone)
  set(result)
  set(batch)
  set(number 0)
  foreach(source IN LISTS ${list} ITEMS end)
    cmake_path(GET source FILENAME file)
    if(source STREQUAL end OR NOT file IN_LIST alone)
      if(NOT source STREQUAL end)
        list(APPEND batch ${source})
      endif()
      list(LENGTH batch size)
      if(size EQUAL COHORT_BATCH OR (source STREQUAL end AND size GREATER 0))
        if(size GREATER 1)
          list(TRANSFORM batch REPLACE "^${PROJECT_SOURCE_DIR}/src/(.*)$" "#include \"\\1\"\n")
          list(JOIN batch "" text)
          set(batch ${CMAKE_CURRENT_BINARY_DIR}/batches/${name}_${number}.cpp)
          file(CONFIGURE OUTPUT ${batch} CONTENT "${text}" @ONLY)
        endif()
        list(APPEND result ${batch})
        set(batch)
        math(EXPR number "${number} + 1")
      endif()
    else()
      list(APPEND result ${source})
    endif()
  endforeach()
  set(${list} ${result} PARENT_SCOPE)
endfunction()

function(cohort_module name)
  cmake_parse_arguments(ARG "THREADS" "" "USES;LIBRARIES;TEST_SOURCES;PROTOS;ALONE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")

  cohort_batches(sources ${name} "${ARG_ALONE}")
  cohort_batches(tests ${name}_test "${ARG_ALONE}")

  add_library(cohort_${name} STATIC ${sources})
  set_target_properties(cohort_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(cohort_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/cohort>)
  target_compile_features(cohort_${name} PUBLIC cxx_std_20)
  target_link_libraries(cohort_${name} PRIVATE $<BUILD_INTERFACE:cohort_options>)
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(cohort_${name} PUBLIC cohort_${used})
  endforeach()
  target_link_libraries(cohort_${name} PRIVATE ${ARG_LIBRARIES})
  foreach(proto IN LISTS ARG_PROTOS)
    cohort_proto(${name} ${proto})
  endforeach()
  install(TARGETS cohort_${name} EXPORT cohort-targets)

  if(COHORT_TESTS AND tests)
    add_executable(${name}_test ${tests} ${ARG_TEST_SOURCES})
    if(ARG_TEST_SOURCES)
      target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR})
    endif()
    # Tests are compiled more often than they run.
    target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
    add_dependencies(unit_tests ${name}_test)
    if(ARG_THREADS)
      add_dependencies(threaded_tests ${name}_test)
    endif()
    target_link_libraries(${name}_test PRIVATE cohort_${name} cohort_options ${ARG_LIBRARIES} GTest::gtest_main)
    if(ARG_PROTOS)
      target_include_directories(${name}_test SYSTEM PRIVATE ${PROJECT_BINARY_DIR}/proto)
    endif()
    gtest_discover_tests(${name}_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 LABELS unit)
  endif()
endfunction()

# Compiles MODULE's FILE.proto into cohort_MODULE. The generated code is not ours: our warnings do not apply to it.
function(cohort_proto module file)
  cmake_path(GET file STEM stem)
  set(out ${PROJECT_BINARY_DIR}/proto)
  set(generated ${out}/${module}/${stem}.pb)
  add_custom_command(OUTPUT ${generated}.cc ${generated}.h
    COMMAND ${CMAKE_COMMAND} -E make_directory ${out}
    COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR}/src --cpp_out=${out} ${module}/${file}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/src
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file} VERBATIM)
  set_source_files_properties(${generated}.cc PROPERTIES COMPILE_OPTIONS "-w")
  target_sources(cohort_${module} PRIVATE ${generated}.cc ${generated}.h)
  target_include_directories(cohort_${module} SYSTEM PRIVATE ${out})
  target_link_libraries(cohort_${module} PRIVATE protobuf::libprotobuf)
endfunction()
