# How every folder of Rubato is built: one library a folder, tests that link alone, warnings that stop the build.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)

find_program(RUBATO_CCACHE ccache)
if(RUBATO_CCACHE)
  # ccache must be told that it may keep what used a precompiled header, and that where a clone lies
  # makes no difference: one builds with what another compiled. To clang it does make one, since its
  # precompiled headers hold paths.
  set(ccache_options CCACHE_SLOPPINESS=pch_defines,time_macros)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND ccache_options "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1)
  endif()
  foreach(language C CXX)
    set(CMAKE_${language}_COMPILER_LAUNCHER
        "${CMAKE_COMMAND};-E;env;${ccache_options};${RUBATO_CCACHE}")
  endforeach()
endif()
find_program(RUBATO_MOLD mold)
if(RUBATO_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Alike everywhere, or precompiled headers could not be shared; libraries also end up in librubato_torch.so.
add_compile_options(-fPIC -pthread)
add_compile_options(-Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers
                    -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options(-Wthread-safety -Wno-unused-command-line-argument)
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")  # So that ccache finds it again.
endif()
if(RUBATO_SANITIZE STREQUAL "address+undefined")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(RUBATO_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
endif()

find_package(absl REQUIRED CONFIG)
find_package(GTest REQUIRED)
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL 3 REQUIRED)
if(RUBATO_TORCH AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # clang instantiates constexpr functions at once, and in C++20 std::vector's are: libtorch 1.13
  # uses a vector of a type that it defines later.
  message(STATUS "libtorch 1.13 does not compile with clang in C++20: building without it")
  set(RUBATO_TORCH OFF)
endif()
if(RUBATO_TORCH)
  find_package(Torch REQUIRED)
endif()

# What nearly every file includes, compiled once: half of the time that a small file takes.
# -DRUBATO_PRECOMPILE=OFF shows whether each file names what it uses.
option(RUBATO_PRECOMPILE "Compile common headers once" ON)
set(rubato_common_headers
    <algorithm> <filesystem> <functional> <map> <memory> <optional> <string> <vector>
    <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
    <absl/strings/str_join.h> <absl/time/time.h> <absl/types/span.h>)
file(WRITE "${CMAKE_BINARY_DIR}/nothing.cc" "")

# rubato_headers(test <gmock/gmock.h>): the common headers and these, which rubato_precompiled shares.
function(rubato_headers kind)
  cmake_parse_arguments(arg "" "" "DEPS;OPTIONS" ${ARGN})
  add_library(rubato_${kind}_headers OBJECT "${CMAKE_BINARY_DIR}/nothing.cc")
  target_link_libraries(rubato_${kind}_headers PUBLIC
    absl::statusor absl::strings absl::str_format absl::time absl::span ${arg_DEPS})
  target_compile_options(rubato_${kind}_headers PRIVATE ${arg_OPTIONS})
  target_precompile_headers(rubato_${kind}_headers PRIVATE
    ${rubato_common_headers} ${arg_UNPARSED_ARGUMENTS})
endfunction()

function(rubato_precompiled target kind)
  if(RUBATO_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM rubato_${kind}_headers)
  endif()
endfunction()

# For tests and for the reading of flags: compiled in half the time so, and what they call is optimised
# in full. A sanitizer's checks cost more to optimise than to run.
set(rubato_quick_options $<$<NOT:$<CONFIG:Debug>>:-O1>)
if(RUBATO_SANITIZE)
  set(rubato_quick_options -O0)
endif()
rubato_headers(library)
rubato_headers(test <gmock/gmock.h> DEPS GTest::gmock OPTIONS ${rubato_quick_options})

# rubato_library(tasks HDRS a.h SRCS a.cc DEPS rubato::base absl::strings)
# Without SRCS it is headers only. DEPS are public: a folder's headers show what it stands on.
# PRECOMPILED kind shares the headers of rubato_headers(kind).
function(rubato_library name)
  cmake_parse_arguments(arg "" "PRECOMPILED" "HDRS;SRCS;DEPS" ${ARGN})
  if(NOT arg_PRECOMPILED)
    set(arg_PRECOMPILED library)
  endif()
  if(arg_SRCS)
    add_library(rubato_${name} STATIC ${arg_SRCS} ${arg_HDRS})
    target_include_directories(rubato_${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
    target_link_libraries(rubato_${name} PUBLIC ${arg_DEPS})
    if(RUBATO_SANITIZE STREQUAL "thread")  # Then it is built where a test wants it.
      set_target_properties(rubato_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
    rubato_precompiled(rubato_${name} ${arg_PRECOMPILED})
  else()
    add_library(rubato_${name} INTERFACE)
    target_include_directories(rubato_${name} INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
    target_link_libraries(rubato_${name} INTERFACE ${arg_DEPS})
  endif()
  add_library(rubato::${name} ALIAS rubato_${name})
endfunction()

# rubato_test(task_queue_test DEPS rubato::tasks [SRCS more.cc] [LABELS slow] [TIMEOUT 300] [WAITS])
# The source is NAME.cc. Links alone, so a missing DEPS shows at once. One ctest entry an executable.
# To ctest a processor is half a core (./check lends it twice as many as there are): a test has two
# of them, or one where it WAITS most of its time, for processes to start or leases to run out.
function(rubato_test name)
  cmake_parse_arguments(arg "WAITS" "TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${name}.cc ${arg_SRCS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  if(NOT "rubato::torch" IN_LIST arg_DEPS)
    rubato_precompiled(${name} test)
    target_compile_options(${name} PRIVATE ${rubato_quick_options})
  endif()
  if(RUBATO_ONE_THREAD AND RUBATO_SANITIZE STREQUAL "thread")
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(arg_WAITS)
    set(processors 1)
  else()
    set(processors 2)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
                       PROCESSORS ${processors})
endfunction()

# rubato_bench(ledger_bench DEPS rubato::tasks): a Google Benchmark program in build/*/bench.
function(rubato_bench name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS" ${ARGN})
  find_package(benchmark REQUIRED)
  add_executable(${name} ${name}.cc ${arg_SRCS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
  target_link_libraries(${name} PRIVATE ${arg_DEPS} benchmark::benchmark)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  if(NOT "rubato::torch" IN_LIST arg_DEPS)
    rubato_precompiled(${name} library)
  endif()
endfunction()
