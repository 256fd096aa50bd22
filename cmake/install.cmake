# cmake --install: the program, and what building a plug-in needs (component `plugins`): the engine,
# the headers a model includes, and find_package(Rubato); and a library for training loops of others.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_LIBDIR lib)  # Beside bin, where the program looks for the engine.

# rubato_install_headers(component HEADERS...): paths below rubato/.
function(rubato_install_headers component)
  foreach(header ${ARGN})
    get_filename_component(folder "${header}" DIRECTORY)
    install(FILES "${PROJECT_SOURCE_DIR}/rubato/${header}"
            DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/rubato/${folder}" COMPONENT ${component})
  endforeach()
endfunction()

install(TARGETS rubato COMPONENT program)

# Elastic allreduce for loops of others (component `group`): librubato_group.so, elastic_group.h and
# elastic_group_c.h with what they include, and `pkg-config rubato-group`.
install(TARGETS rubato_group COMPONENT group)
rubato_install_headers(group
  adapters/ring/elastic_group.h adapters/ring/elastic_group_c.h base/ids.h base/mutex.h base/rng.h
  membership/broken_links.h membership/issued_views.h membership/member.h membership/swim.h membership/swim_options.h
  membership/view.h membership/view_source.h membership/views.h net/wire_format.h
  ring/canonical.h ring/kernels.h ring/quota.h ring/state_snapshot.h)
configure_file("${PROJECT_SOURCE_DIR}/cmake/rubato-group.pc.in"
               "${PROJECT_BINARY_DIR}/rubato-group.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/rubato-group.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT group)

if(RUBATO_TORCH)
  install(TARGETS rubato_torch COMPONENT plugins)
  rubato_install_headers(plugins
          adapters/torch/abi.h adapters/torch/embedding.h adapters/torch/gather.h
          adapters/torch/model.h base/bytes.h base/rng.h base/version.h data/batch.h data/custom_source.h data/data_away.h
          data/ids.h data/source.h job/job_spec.h job/optimizer_spec.h model/options.h model/trainer.h models/fm_lookup.h)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/RubatoConfig.cmake.in"
                 "${PROJECT_BINARY_DIR}/RubatoConfig.cmake" @ONLY)
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/RubatoConfigVersion.cmake"
                                   COMPATIBILITY ExactVersion)
  install(FILES "${PROJECT_BINARY_DIR}/RubatoConfig.cmake"
                "${PROJECT_BINARY_DIR}/RubatoConfigVersion.cmake"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/Rubato" COMPONENT plugins)
endif()
