#include "comm/connect.h"

#include "comm/meta_comm.h"
#include "comm/mpi/comm.h"
#include "comm/shm/comm.h"
#include "core/libraries/gpu_libraries.h"

namespace ds {
namespace {

std::unique_ptr<Communicator> connect_mpi(const ConnectOptions& options) {
  auto world = open_mpi_world({.timeout = options.timeout, .place = options.rank});
  if (world->rank() != options.rank || world->size() != options.size) {
    throw CommError(fmt::format("connect: told to be rank {} of {}, but MPI says rank {} of {}",
                                options.rank, options.size, world->rank(), world->size()));
  }
  return world;
}

std::unique_ptr<Communicator> connect_nccl(const ConnectOptions& options) {
  require_table(GpuLibrary::kNccl);
  Communicator* const hosts = options.nccl.hosts;
  DS_CHECK(hosts != nullptr && hosts->rank() == options.rank && hosts->size() == options.size,
           "connect: NCCL is opened over a communicator of the hosts with the same ranks; expected "
           "rank {} of {}, got {}",
           options.rank, options.size,
           hosts == nullptr ? "none" : fmt::format("rank {} of {}", hosts->rank(), hosts->size()));
  NcclOptions nccl = options.nccl.options;
  nccl.timeout = options.timeout;
  return open_nccl_group(*hosts, nccl);
}

}  // namespace

std::unique_ptr<Communicator> connect(ConnectOptions options) {
  if (options.backend == "shm") {
    if (options.size == 1) return std::move(make_thread_group(1).front());
    return open_shm_group(options.shm_name, options.rank, options.size,
                          {.timeout = options.timeout});
  }
  if (options.backend == "tcp") {
    return open_tcp_group(std::move(options.tcp.listener),
                          {.rank = options.rank,
                           .size = options.size,
                           .epoch = options.tcp.epoch,
                           .endpoints = std::move(options.tcp.endpoints),
                           .secret = std::move(options.tcp.secret)},
                          {.timeout = options.timeout, .board = std::move(options.tcp.board)});
  }
  if (options.backend == "mpi") return connect_mpi(options);
  if (options.backend == "meta") return std::make_unique<MetaComm>(options.rank, options.size);
  if (options.backend == "nccl") return connect_nccl(options);
  throw ConfigError(
      fmt::format("connect: unknown communication backend \"{}\"; expected shm, tcp, "
                  "mpi, nccl or meta",
                  options.backend));
}

}  // namespace ds
