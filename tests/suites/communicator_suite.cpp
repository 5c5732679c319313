#include "tests/suites/communicator_suite.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "comm/onebit_comm.h"
#include "core/values/index.h"
#include "kernels/quantize/onebit_math.h"
#include "tests/suites/communicator_values.h"
#include "tests/support/ranks.h"

namespace ds::test {
namespace {

// Tensors in the communicator's memory, and on the plain heap: direct and staged where that
// differs.
template <class Body>
void on_both_memories(Communicator& comm, const Body& body) {
  ThreadPool pool(1);
  HostMemory heap;
  Stream near({Device::cpu(), &comm.memory(), &pool, nullptr});
  Stream far({Device::cpu(), &heap, &pool, nullptr});
  body(near);
  body(far);
}

// Lengths of several chunks cost every rank the work of all in checking; larger groups have no code
// of their own for them.
bool runs_long_messages(const Communicator& comm) { return comm.size() <= 4; }

constexpr std::array<int64_t, 5> kLengths{0, 1, 7, 1000, 3001};
constexpr std::array kOps{ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                          ReduceOp::kProduct};

void check_equal(const Tensor& got, const std::vector<std::byte>& expected,
                 const std::string& what) {
  require(expected.size() == got.bytes(), "{}: {} bytes, expected {}", what, got.bytes(),
          expected.size());
  const auto* bytes = static_cast<const std::byte*>(got.raw());
  for (size_t i = 0; i < expected.size(); ++i) {
    require(bytes[i] == expected[i], "{}: element {} differs", what, i / size_of(got.dtype()));
  }
}

bool rounds(DType dtype, ReduceOp op) {
  return !is_whole_number(dtype) && op != ReduceOp::kMin && op != ReduceOp::kMax;
}

// Elements [begin, begin + numel) of the reduction of everybody's values: to the bit where the
// communicator sums in rank order or nothing is rounded, else as near as any order comes.
void check_reduced(Communicator& comm, const Tensor& got, DType in, ReduceOp op, int64_t begin,
                   const std::string& what) {
  if (comm.sum_order() == SumOrder::kRank || !rounds(in, op)) {
    check_equal(got, reduced(comm.size(), in, got.dtype(), op, begin, got.numel()), what);
    return;
  }
  for (int64_t i = 0; i < got.numel(); ++i) {
    const Reach reach = reach_of_any_order(comm.size(), in, got.dtype(), op, begin + i);
    const double value = as_double(got, i);
    require(std::abs(value - reach.exact) <= reach.slack, "{}: element {} is {}, expected {} +- {}",
            what, i, value, reach.exact, reach.slack);
  }
}

// What every transport promises, whatever its order: the ranks have the same bits.
void check_same_everywhere(Communicator& comm, Stream& stream, const Tensor& mine,
                           const std::string& what) {
  if (comm.sum_order() == SumOrder::kRank) return;  // compared with one expectation already
  Tensor all = Tensor::empty({mine.numel() * comm.size()}, mine.dtype(), stream);
  comm.all_gather(mine, all, stream);
  const auto* bytes = static_cast<const std::byte*>(all.raw());
  for (int rank = 1; rank < comm.size() && mine.bytes() > 0; ++rank) {
    const std::byte* const theirs = bytes + to_size(rank) * mine.bytes();
    require(std::memcmp(bytes, theirs, mine.bytes()) == 0, "{}: ranks 0 and {} differ", what, rank);
  }
}

void all_reduce_one(Communicator& comm, Stream& stream, DType dtype, ReduceOp op, int64_t numel) {
  Tensor t = values(comm.rank(), dtype, numel, stream);
  comm.all_reduce(t, op, stream);
  const std::string what =
      fmt::format("all_reduce {} {} x {}", static_cast<int>(op), name_of(dtype), numel);
  check_reduced(comm, t, dtype, op, 0, what);
  check_same_everywhere(comm, stream, t, what);
}

void all_reduce_everything(Communicator& comm) {
  on_both_memories(comm, [&](Stream& stream) {
    for (const DType dtype : kDTypes) {
      for (const ReduceOp op : kOps) {
        for (const int64_t numel : kLengths) all_reduce_one(comm, stream, dtype, op, numel);
      }
    }
  });
}

void all_reduce_many_chunks(Communicator& comm) {
  if (!runs_long_messages(comm)) return;
  on_both_memories(comm, [&](Stream& stream) {
    all_reduce_one(comm, stream, DType::kF32, ReduceOp::kSum, 140'001);
    all_reduce_one(comm, stream, DType::kBF16, ReduceOp::kAverage, 280'003);
  });
}

void reduce_scatter_one(Communicator& comm, Stream& stream, DType in, DType out, ReduceOp op,
                        int64_t slice) {
  const int n = comm.size();
  const int64_t begin = comm.rank() * slice;
  const std::string what = fmt::format("reduce_scatter {} {} into {} x {}", static_cast<int>(op),
                                       name_of(in), name_of(out), slice);
  Tensor full = values(comm.rank(), in, slice * n, stream);
  Tensor shard = Tensor::empty({slice}, out, stream);
  comm.reduce_scatter(full, shard, op, stream);
  check_reduced(comm, shard, in, op, begin, what);
  if (in != out) return;
  full = values(comm.rank(), in, slice * n, stream);
  Tensor inside = full.narrow(begin, slice);
  comm.reduce_scatter(full, inside, op, stream);
  check_reduced(comm, inside, in, op, begin, what + " in place");
}

void reduce_scatter_everything(Communicator& comm) {
  on_both_memories(comm, [&](Stream& stream) {
    for (const int64_t slice : {0, 1, 5, 700, 3001}) {
      for (const DType dtype : kDTypes) {
        reduce_scatter_one(comm, stream, dtype, dtype, ReduceOp::kSum, slice);
      }
      for (const DType dtype : {DType::kBF16, DType::kF16}) {
        reduce_scatter_one(comm, stream, dtype, DType::kF32, ReduceOp::kAverage, slice);
      }
      reduce_scatter_one(comm, stream, DType::kF32, DType::kF32, ReduceOp::kMax, slice);
    }
    if (runs_long_messages(comm)) {
      reduce_scatter_one(comm, stream, DType::kF32, DType::kF32, ReduceOp::kSum, 50'021);
    }
  });
}

void all_gather_everything(Communicator& comm) {
  on_both_memories(comm, [&](Stream& stream) {
    for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF64}) {
      for (const int64_t slice : {0, 1, 7, 3001, 40'001}) {
        if (slice > 40'000 && !(runs_long_messages(comm) && dtype == DType::kF64)) continue;
        const int n = comm.size();
        std::vector<std::byte> expected;
        for (int r = 0; r < n; ++r) {
          const Tensor part = values(r, dtype, slice, stream);
          const auto* bytes = static_cast<const std::byte*>(part.raw());
          expected.insert(expected.end(), bytes, bytes + part.bytes());
        }
        const Tensor shard = values(comm.rank(), dtype, slice, stream);
        Tensor full = Tensor::zeros({slice * n}, dtype, stream);
        comm.all_gather(shard, full, stream);
        check_equal(full, expected, fmt::format("all_gather {} x {}", name_of(dtype), slice));
        full = Tensor::zeros({slice * n}, dtype, stream);
        Tensor inside = full.narrow(comm.rank() * slice, slice);
        if (slice != 0) std::memcpy(inside.raw(), shard.raw(), shard.bytes());
        comm.all_gather(inside, full, stream);
        check_equal(full, expected, fmt::format("all_gather in place x {}", slice));
      }
    }
  });
}

void all_to_all_everything(Communicator& comm) {
  on_both_memories(comm, [&](Stream& stream) {
    for (const int64_t slice : {0, 1, 9, 2001, 40'001}) {
      if (slice > 40'000 && !runs_long_messages(comm)) continue;
      const int n = comm.size();
      std::vector<std::byte> expected;
      for (int r = 0; r < n; ++r) {
        const Tensor theirs = values(r, DType::kF32, slice * n, stream);
        const Tensor part = theirs.narrow(comm.rank() * slice, slice);
        const auto* bytes = static_cast<const std::byte*>(part.raw());
        expected.insert(expected.end(), bytes, bytes + part.bytes());
      }
      const Tensor in = values(comm.rank(), DType::kF32, slice * n, stream);
      Tensor out = Tensor::empty({slice * n}, DType::kF32, stream);
      comm.all_to_all(in, out, stream);
      check_equal(out, expected, fmt::format("all_to_all x {}", slice));
    }
  });
}

std::vector<float> own_numbers(int rank, int64_t numel, int round) {
  std::vector<float> numbers(to_size(numel));
  for (int64_t i = 0; i < numel; ++i) {
    nth(numbers, i) = std::sin(static_cast<float>(1 + rank + 3 * i + 7 * round));
  }
  return numbers;
}

// Over every transport what all ranks in one place make of it, its errors from round to round.
void averages_in_one_bit(Communicator& comm) {
  constexpr int64_t kNumel = 777;
  constexpr int kRounds = 3;
  const int64_t padded = kernels::onebit_padded_numel(kNumel, comm.size());
  on_both_memories(comm, [&](Stream& stream) {
    const auto zeros = [&](int64_t n) { return Tensor::zeros({n}, DType::kF32, stream); };
    const OneBitTensor tensor{.parts = {{.values = zeros(kNumel)}},
                              .worker = zeros(padded),
                              .server = zeros(padded / comm.size())};
    float* const mine = tensor.parts[0].values.data<float>();
    std::vector<kernels::OneBitErrors> errors(to_size(comm.size()),
                                              kernels::OneBitErrors::zeros(padded, comm.size()));
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::vector<float>> all;
      for (int rank = 0; rank < comm.size(); ++rank) {
        all.push_back(own_numbers(rank, kNumel, round));
      }
      std::ranges::copy(all[to_size(comm.rank())], mine);
      OneBitComm(comm).average(std::span(&tensor, 1), stream);
      const std::vector<float> wanted =
          comm.size() == 1 ? all[0] : kernels::onebit_average(all, errors);
      for (int64_t i = 0; i < kNumel; ++i) {
        require(std::abs(mine[i] - nth(wanted, i)) <= 1e-6F, "one bit, round {}: element {}", round,
                i);
      }
    }
  });
}

void broadcast_from_every_root(Communicator& comm) {
  on_both_memories(comm, [&](Stream& stream) {
    for (int root = 0; root < comm.size(); ++root) {
      for (const int64_t numel : {0, 1, 1001, 300'003}) {
        if (numel > 300'000 && !runs_long_messages(comm)) continue;
        Tensor t = values(comm.rank(), DType::kI8, numel, stream);
        comm.broadcast(t, root, stream);
        const Tensor source = values(root, DType::kI8, numel, stream);
        require(numel == 0 || std::memcmp(t.raw(), source.raw(), t.bytes()) == 0,
                "broadcast from {} x {}", root, numel);
      }
    }
  });
}

void check_received(Communicator& comm, Stream& stream, int from, int message) {
  const int64_t numel = 1 + 977 * message;
  Tensor t = Tensor::empty({numel}, DType::kF32, stream);
  comm.recv(t, from, stream);
  const Tensor expected = values(from + message, DType::kF32, numel, stream);
  require(std::memcmp(t.raw(), expected.raw(), t.bytes()) == 0, "message {} from {}", message,
          from);
}

void messages_arrive_in_order(Communicator& comm) {
  const int n = comm.size();
  if (n == 1) return;
  const int next = (comm.rank() + 1) % n;
  const int previous = (comm.rank() + n - 1) % n;
  on_both_memories(comm, [&](Stream& stream) {
    const auto send_one = [&](int message) {
      const Tensor t = values(comm.rank() + message, DType::kF32, 1 + 977 * message, stream);
      comm.send(t, next, stream);
    };
    // Round the ring: sends return without their receiver.
    for (int message = 0; message < 10; ++message) send_one(message);
    for (int message = 0; message < 10; ++message) check_received(comm, stream, previous, message);
    // More than may be under way at once.
    for (int message = 0; message < 40; ++message) {
      if (comm.rank() == 0)
        comm.send(values(message, DType::kF32, 1 + 977 * message, stream), 1, stream);
      if (comm.rank() == 1) check_received(comm, stream, 0, message);
    }
  });
}

// Longer than what any group takes of a message before its receiver has come, so that nobody may
// wait for that.
void exchanges_go_round_at_once(Communicator& comm) {
  const int n = comm.size();
  if (n == 1) return;
  const int previous = (comm.rank() + n - 1) % n;
  on_both_memories(comm, [&](Stream& stream) {
    for (const int64_t numel : {int64_t{5}, int64_t{100'000}}) {
      const Tensor out = values(comm.rank(), DType::kF32, numel, stream);
      Tensor in = Tensor::empty({numel}, DType::kF32, stream);
      int times = 0;
      comm.exchange({.out = out, .to = (comm.rank() + 1) % n, .in = in, .from = previous}, stream,
                    [&] { ++times; });
      const Tensor expected = values(previous, DType::kF32, numel, stream);
      require(std::memcmp(in.raw(), expected.raw(), in.bytes()) == 0, "{} elements from {}", numel,
              previous);
      require(times == 1, "what is to be done meanwhile was done {} times", times);
    }
  });
}

void splits_order_by_key_and_nest(Communicator& comm) {
  ThreadPool pool(1);
  const int n = comm.size();
  const int color = comm.rank() % 2;
  const auto half = comm.split(color, -comm.rank());
  const int expected_size = (n + 1 - color) / 2;
  require(half->size() == expected_size, "split: size {}", half->size());
  const int place_by_rank = comm.rank() / 2;
  require(half->rank() == expected_size - 1 - place_by_rank, "split: rank {}", half->rank());
  Stream stream({Device::cpu(), &half->memory(), &pool, nullptr});
  for (const int64_t numel : {3, 5000, 90'000}) {
    Tensor t = Tensor::zeros({numel}, DType::kI32, stream);
    for (int64_t i = 0; i < numel; ++i) t.data<int32_t>()[i] = 1 << comm.rank();
    half->all_reduce(t, ReduceOp::kSum, stream);
    int sum = 0;
    for (int r = color; r < n; r += 2) sum += 1 << r;
    for (int64_t i = 0; i < numel; ++i) {
      require(t.data<int32_t>()[i] == sum, "split: sum {} instead of {}", t.data<int32_t>()[i],
              sum);
    }
  }
  const auto alone = half->split(half->rank(), 0);
  require(alone->size() == 1 && alone->rank() == 0, "split: not alone");
  Tensor t = values(comm.rank(), DType::kF32, 5000, stream);
  alone->all_reduce(t, ReduceOp::kAverage, stream);
  const Tensor same = values(comm.rank(), DType::kF32, 5000, stream);
  require(std::memcmp(t.raw(), same.raw(), t.bytes()) == 0, "all_reduce of one rank changed it");
  comm.barrier();
}

void mistakes_are_noticed(Communicator& comm) {
  ThreadPool pool(1);
  Stream stream({Device::cpu(), &comm.memory(), &pool, nullptr});
  check_caller_mistakes(comm, stream);
  comm.barrier();
}

void barriers_and_small_messages(Communicator& comm) {
  ThreadPool pool(1);
  Stream stream({Device::cpu(), &comm.memory(), &pool, nullptr});
  Tensor t = Tensor::zeros({4}, DType::kI64, stream);
  for (int64_t round = 0; round < 50; ++round) {
    for (int i = 0; i < 4; ++i) t.data<int64_t>()[i] = round * comm.rank() + i;
    comm.all_reduce(t, ReduceOp::kSum, stream);
    if (round % 3 == 0) comm.barrier();
    const int64_t ranks = comm.size();
    for (int i = 0; i < 4; ++i) {
      require(t.data<int64_t>()[i] == round * ranks * (ranks - 1) / 2 + i * ranks, "round {}",
              round);
    }
  }
}

template <class Error, class Body>
void require_throws(const char* what, const Body& body) {
  try {
    body();
  } catch (const Error&) {
    return;
  }
  throw InternalError(fmt::format("{} was not refused", what));
}

constexpr std::array kCases{
    CommunicatorCase{"barriers and small messages", barriers_and_small_messages},
    CommunicatorCase{"all_reduce: every dtype, operation and length", all_reduce_everything},
    CommunicatorCase{"all_reduce: many chunks", all_reduce_many_chunks},
    CommunicatorCase{"reduce_scatter", reduce_scatter_everything},
    CommunicatorCase{"all_gather", all_gather_everything},
    CommunicatorCase{"all_to_all", all_to_all_everything},
    CommunicatorCase{"averages in one bit", averages_in_one_bit},
    CommunicatorCase{"broadcast from every root", broadcast_from_every_root},
    CommunicatorCase{"messages arrive in order", messages_arrive_in_order},
    CommunicatorCase{"exchanges go round at once", exchanges_go_round_at_once},
    CommunicatorCase{"splits order by key and nest", splits_order_by_key_and_nest},
    CommunicatorCase{"mistakes of the caller are noticed", mistakes_are_noticed},
};

Tensor tensor_of(DType dtype, int64_t numel, Stream& stream) {
  return Tensor::zeros({numel}, dtype, stream);
}

constexpr std::array kDisagreements{
    DisagreementCase{"another operation",
                     [](Communicator& comm, Stream& stream) {
                       Tensor t = tensor_of(DType::kF32, 10, stream);
                       if (comm.rank() == 1) {
                         comm.broadcast(t, 0, stream);
                       } else {
                         comm.all_reduce(t, ReduceOp::kSum, stream);
                       }
                     },
                     "rank 1 calls broadcast of fp32 x 10 from root 0"},
    DisagreementCase{"another size",
                     [](Communicator& comm, Stream& stream) {
                       Tensor t = tensor_of(DType::kF32, 30'000 + comm.rank() % 2, stream);
                       comm.all_reduce(t, ReduceOp::kSum, stream);
                     },
                     "rank 1 calls all_reduce of fp32 x 30001, sum"},
    DisagreementCase{"a size on the other side of the small-message limit",
                     [](Communicator& comm, Stream& stream) {
                       Tensor t = tensor_of(DType::kF32, comm.rank() == 1 ? 100 : 100'000, stream);
                       comm.all_reduce(t, ReduceOp::kSum, stream);
                     },
                     "rank 1 calls all_reduce of fp32 x 100, sum"},
    DisagreementCase{"another dtype",
                     [](Communicator& comm, Stream& stream) {
                       const DType dtype = comm.rank() == 1 ? DType::kBF16 : DType::kF16;
                       Tensor t = tensor_of(dtype, 10, stream);
                       comm.all_reduce(t, ReduceOp::kSum, stream);
                     },
                     "rank 1 calls all_reduce of bf16 x 10, sum"},
    DisagreementCase{"another reduction",
                     [](Communicator& comm, Stream& stream) {
                       Tensor t = tensor_of(DType::kF32, 10, stream);
                       comm.all_reduce(t, comm.rank() == 1 ? ReduceOp::kMax : ReduceOp::kSum,
                                       stream);
                     },
                     "rank 1 calls all_reduce of fp32 x 10, max"},
    DisagreementCase{"another root",
                     [](Communicator& comm, Stream& stream) {
                       Tensor t = tensor_of(DType::kF32, 10, stream);
                       comm.broadcast(t, comm.rank() == 1 ? 1 : 0, stream);
                     },
                     "rank 1 calls broadcast of fp32 x 10 from root 1"},
    DisagreementCase{"a barrier instead",
                     [](Communicator& comm, Stream& stream) {
                       Tensor t = tensor_of(DType::kU8, comm.size(), stream);
                       if (comm.rank() == 1) {
                         comm.barrier();
                       } else {
                         comm.all_gather(t.narrow(0, 1), t, stream);
                       }
                     },
                     "rank 1 calls barrier"},
};

}  // namespace

std::span<const CommunicatorCase> communicator_cases() { return kCases; }
std::span<const DisagreementCase> disagreement_cases() { return kDisagreements; }

void check_caller_mistakes(Communicator& comm, Stream& stream) {
  const int n = comm.size();
  Tensor good = Tensor::empty({4 * n}, DType::kF32, stream);
  Tensor shard = Tensor::empty({4}, DType::kF32, stream);
  Tensor wrong = Tensor::empty({4 * n + 1}, DType::kF32, stream);
  Tensor other = Tensor::empty({4 * n}, DType::kI32, stream);
  Tensor undefined;
  require_throws<Error>("a wrong full size", [&] { comm.all_gather(shard, wrong, stream); });
  require_throws<Error>("a wrong full dtype", [&] { comm.all_gather(shard, other, stream); });
  require_throws<Error>("a wrong shard size",
                        [&] { comm.reduce_scatter(wrong, shard, ReduceOp::kSum, stream); });
  require_throws<Error>("a wrong shard dtype",
                        [&] { comm.reduce_scatter(other, shard, ReduceOp::kSum, stream); });
  require_throws<Error>("unequal sides", [&] { comm.all_to_all(good, wrong, stream); });
  require_throws<Error>("a root outside the group", [&] { comm.broadcast(good, n, stream); });
  require_throws<Error>("a negative root", [&] { comm.broadcast(good, -1, stream); });
  require_throws<Error>("a send to oneself", [&] { comm.send(good, comm.rank(), stream); });
  require_throws<Error>("a receive from nobody", [&] { comm.recv(good, n, stream); });
  require_throws<Error>("an undefined tensor",
                        [&] { comm.all_reduce(undefined, ReduceOp::kSum, stream); });
}

namespace {

// "all_reduce #12 of" -> "all_reduce of": a transport may make calls of its own while it connects.
std::string without_numbers(std::string text) {
  for (size_t at = text.find(" #"); at != std::string::npos; at = text.find(" #")) {
    const size_t end = text.find_first_not_of("0123456789", at + 2);
    text.erase(at, (end == std::string::npos ? text.size() : end) - at);
  }
  return text;
}

}  // namespace

void check_disagreement(Communicator& comm, const DisagreementCase& disagreement) {
  ThreadPool pool(1);
  HostMemory heap;
  Stream stream({Device::cpu(), &heap, &pool, nullptr});
  try {
    disagreement.body(comm, stream);
  } catch (const CommError& e) {
    const std::string text = without_numbers(e.what());
    require(text.find(disagreement.expected) != std::string::npos,
            "{}: rank {} got the message: {}", disagreement.name, comm.rank(), text);
    require_throws<CommError>("a call after the failure", [&] { comm.barrier(); });
    return;
  }
  throw InternalError(fmt::format("{}: rank {} noticed nothing", disagreement.name, comm.rank()));
}

uint64_t result_digest(Communicator& comm, MemoryResource& memory) {
  ThreadPool pool(1);
  Stream stream({Device::cpu(), &memory, &pool, nullptr});
  uint64_t digest = 14695981039346656037ULL;  // FNV-1a
  const auto add = [&](const Tensor& t) {
    const auto* bytes = static_cast<const std::byte*>(t.raw());
    for (size_t i = 0; i < t.bytes(); ++i) {
      digest = (digest ^ static_cast<uint64_t>(bytes[i])) * 1099511628211ULL;
    }
  };
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const int64_t numel : {17, 4099, 150'007}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
        Tensor t = values(comm.rank(), dtype, numel, stream);
        comm.all_reduce(t, op, stream);
        add(t);
        Tensor full = values(comm.rank(), dtype, numel * comm.size(), stream);
        Tensor shard = Tensor::empty({numel}, DType::kF32, stream);
        comm.reduce_scatter(full, shard, op, stream);
        add(shard);
      }
    }
  }
  return digest;
}

}  // namespace ds::test
