#include "rankd/verbs/inventory.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>

#include "cli/text/terminal_text.h"
#include "comm/mpi/comm.h"
#include "config/reader/value.h"
#include "kernels/matmul/cpu_features.h"
#include "proto/build_info.h"

namespace ds {
namespace {

Value library(const std::string& name, const std::string& version, const std::string& purpose) {
  Value out = Value::object();
  out.set("name", Value::string(name));
  out.set("version", version.empty() ? Value::null() : Value::string(version));
  out.set("purpose", Value::string(purpose));
  return out;
}

}  // namespace

int run_inventory() {
  const kernels::CpuFeatures cpu = kernels::cpu_features();
  std::vector<Value> libraries;
  libraries.push_back(library("oneDNN", cpu.onednn_version, "matrix products"));
  libraries.push_back(library("gRPC", grpc::Version(), "control of the ranks"));
  libraries.push_back(library("Protobuf",
                              google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION),
                              "control of the ranks"));
  if (built_with_mpi()) libraries.push_back(library("MPI", mpi_library(), "the MPI communicator"));
  Value out = Value::object();
  out.set("build_id", Value::string(build_id()));
  out.set("libraries", Value::list(std::move(libraries)));
  out.set("onednn_isa", Value::string(cpu.onednn_isa));
  out.set("vectors", Value::string(cpu.vectors));
  out.set("bf16_products", Value::boolean(cpu.bf16_products));
  say("{}", to_json(out));
  return 0;
}

}  // namespace ds
