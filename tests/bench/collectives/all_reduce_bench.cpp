// all_reduce_bench: mpirun -n 2 all_reduce_bench [rounds]
// Our all-reduce over shared memory and over TCP (loopback) against MPI_Allreduce, in the same
// processes, interleaved round by round; fp32 sums, tensors in the communicator's memory and on the
// heap. Prints per size the median times and the median over rounds of the ratio MPI / ours (above
// 1: ours is faster). Give mpirun `--mca btl tcp,self` to compare TCP with TCP.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "comm/shm/comm.h"
#include "comm/tcp/comm.h"
#include "tests/bench/median.h"

namespace {

using namespace ds;
using ds::bench::median;
using SteadyClock = std::chrono::steady_clock;

struct Size {
  const char* name;
  int64_t bytes;
  int calls;
  double goal;
};

constexpr std::array kSizes{
    Size{"8 B", 8, 20000, 0},         Size{"1 KiB", 1 << 10, 20000, 1},
    Size{"4 KiB", 4 << 10, 10000, 0}, Size{"64 KiB", 64 << 10, 2000, 0},
    Size{"1 MiB", 1 << 20, 200, 3},   Size{"16 MiB", 16 << 20, 20, 0},
    Size{"128 MiB", 128 << 20, 4, 6},
};

// Seconds per call, the slowest rank's; both ranks start together.
template <class Call>
double seconds_per_call(int calls, const Call& call) {
  call();
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = SteadyClock::now();
  for (int i = 0; i < calls; ++i) call();
  const double mine = std::chrono::duration<double>(SteadyClock::now() - start).count() / calls;
  double slowest = mine;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

// Endpoints of at most this length are told to all by MPI.
constexpr size_t kEndpointBytes = 64;

std::unique_ptr<Communicator> open_tcp(int rank, int size) {
  TcpListener listener("127.0.0.1");
  std::array<char, kEndpointBytes> own{};
  std::snprintf(own.data(), own.size(), "%s", listener.endpoint().c_str());
  std::vector<char> all(kEndpointBytes * static_cast<size_t>(size));
  MPI_Allgather(own.data(), kEndpointBytes, MPI_CHAR, all.data(), kEndpointBytes, MPI_CHAR,
                MPI_COMM_WORLD);
  TcpWorld world{.rank = rank, .size = size, .secret = std::string(32, 's')};
  for (int r = 0; r < size; ++r) {
    world.endpoints.emplace_back(all.data() + kEndpointBytes * static_cast<size_t>(r));
  }
  return open_tcp_group(std::move(listener), world);
}

struct Transports {
  Communicator& shared;
  Communicator& tcp;
};

void measure(const Transports& transports, Stream& near, Stream& far, const Size& size,
             int rounds) {
  Communicator& comm = transports.shared;
  const int64_t numel = size.bytes / 4;
  Tensor arena = Tensor::zeros({numel}, DType::kF32, near);
  Tensor heap = Tensor::zeros({numel}, DType::kF32, far);
  std::vector<double> ours, staged, tcp, theirs, ratio, staged_ratio, tcp_ratio;
  for (int round = 0; round < rounds; ++round) {
    ours.push_back(
        seconds_per_call(size.calls, [&] { comm.all_reduce(arena, ReduceOp::kSum, near); }));
    theirs.push_back(seconds_per_call(size.calls, [&] {
      MPI_Allreduce(MPI_IN_PLACE, heap.raw(), static_cast<int>(numel), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    }));
    staged.push_back(
        seconds_per_call(size.calls, [&] { comm.all_reduce(heap, ReduceOp::kSum, far); }));
    tcp.push_back(seconds_per_call(size.calls,
                                   [&] { transports.tcp.all_reduce(heap, ReduceOp::kSum, far); }));
    tcp_ratio.push_back(theirs.back() / tcp.back());
    ratio.push_back(theirs.back() / ours.back());
    staged_ratio.push_back(theirs.back() / staged.back());
  }
  if (comm.rank() != 0) return;
  const auto bytes = static_cast<double>(size.bytes);
  std::printf(
      "%8s  ours %10.2f us %7.2f GB/s  heap %10.2f us  TCP %10.2f us  MPI %10.2f us %7.2f GB/s  "
      "ratio %6.2f (heap %6.2f, TCP %6.2f)",
      size.name, median(ours) * 1e6, bytes / median(ours) / 1e9, median(staged) * 1e6,
      median(tcp) * 1e6, median(theirs) * 1e6, bytes / median(theirs) / 1e9, median(ratio),
      median(staged_ratio), median(tcp_ratio));
  if (size.goal > 0) std::printf("  goal %.0f", size.goal);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  std::array<char, 128> name{};
  if (rank == 0) std::snprintf(name.data(), name.size(), "%s", ds::random_shm_name().c_str());
  MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  {
    const auto comm = ds::open_shm_group(name.data(), rank, size);
    const auto tcp = open_tcp(rank, size);
    ds::ThreadPool pool(1);
    ds::HostMemory host;
    ds::Stream near({ds::Device::cpu(), &comm->memory(), &pool, nullptr});
    ds::Stream far({ds::Device::cpu(), &host, &pool, nullptr});
    if (rank == 0) std::printf("all_reduce, %d ranks, fp32 sum, %d rounds\n", size, rounds);
    for (const Size& each : kSizes) measure({*comm, *tcp}, near, far, each, rounds);
  }
  MPI_Finalize();
  return 0;
}
