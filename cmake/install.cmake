# cmake --install: the program, and what building a plug-in needs (component `plugins`): the engine,
# the headers a model includes, and find_package(Rubato).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_LIBDIR lib)  # Beside bin, where the program looks for the engine.

install(TARGETS rubato COMPONENT program)
if(RUBATO_TORCH)
  install(TARGETS rubato_torch COMPONENT plugins)
  foreach(header
          adapters/torch/abi.h adapters/torch/embedding.h adapters/torch/gather.h
          adapters/torch/model.h base/bytes.h base/rng.h base/version.h data/batch.h data/custom_source.h
          data/ids.h data/source.h job/job_spec.h job/optimizer_spec.h model/options.h model/trainer.h models/fm_lookup.h)
    get_filename_component(folder "${header}" DIRECTORY)
    install(FILES "${PROJECT_SOURCE_DIR}/rubato/${header}"
            DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/rubato/${folder}" COMPONENT plugins)
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/RubatoConfig.cmake.in"
                 "${PROJECT_BINARY_DIR}/RubatoConfig.cmake" @ONLY)
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/RubatoConfigVersion.cmake"
                                   COMPATIBILITY ExactVersion)
  install(FILES "${PROJECT_BINARY_DIR}/RubatoConfig.cmake"
                "${PROJECT_BINARY_DIR}/RubatoConfigVersion.cmake"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/Rubato" COMPONENT plugins)
endif()
