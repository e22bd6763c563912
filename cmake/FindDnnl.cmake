# oneDNN without its OpenCL dependency (Debian's own package file asks for it): the imported target Dnnl::dnnl.
find_path(Dnnl_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(Dnnl_LIBRARY dnnl)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Dnnl REQUIRED_VARS Dnnl_LIBRARY Dnnl_INCLUDE_DIR)
if(Dnnl_FOUND AND NOT TARGET Dnnl::dnnl)
  add_library(Dnnl::dnnl UNKNOWN IMPORTED)
  set_target_properties(Dnnl::dnnl PROPERTIES
    IMPORTED_LOCATION ${Dnnl_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${Dnnl_INCLUDE_DIR})
endif()
