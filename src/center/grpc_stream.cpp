#include "center/grpc_stream.h"

#include <cstdlib>

#include <grpc/support/log.h>

namespace cohort {

void silenceGrpc() {
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
}

}  // namespace cohort
