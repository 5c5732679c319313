// Averages in one bit per number: against the arithmetic with all ranks in one place, and what they
// put on the wire.
#include "comm/onebit_comm.h"

#include <algorithm>
#include <cmath>

#include "comm/traced_comm.h"
#include "core/values/index.h"
#include "core/values/rng.h"
#include "kernels/quantize/onebit_math.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace ds {
namespace {

using test::require;
using Floats = std::vector<float>;

constexpr int64_t kRounds = 6;
const std::vector<int64_t>& sizes() {
  static const std::vector<int64_t> kSizes{37, 1, 300, 64};
  return kSizes;
}

float value_of(int rank, int64_t round, size_t tensor, int64_t at) {
  const Rng rng(7, "onebit");
  return rng.derive(static_cast<uint64_t>(rank))
             .derive(static_cast<uint64_t>(round))
             .normal(tensor * 1000 + to_size(at)) *
         (tensor == 2 ? 100.0F : 0.1F);
}

Floats values_of(int rank, int64_t round, size_t tensor) {
  Floats values(to_size(sizes()[tensor]));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = value_of(rank, round, tensor, narrow<int64_t>(i));
  }
  return values;
}

// What every round of every tensor comes to.
std::vector<std::vector<Floats>> expected(int ranks) {
  std::vector<std::vector<Floats>> all;
  std::vector<std::vector<kernels::OneBitErrors>> errors;
  for (const int64_t n : sizes()) {
    errors.emplace_back(to_size(ranks), kernels::OneBitErrors::zeros(
                                            kernels::onebit_padded_numel(n, ranks), ranks));
  }
  for (int64_t round = 0; round < kRounds; ++round) {
    std::vector<Floats>& results = all.emplace_back();
    for (size_t t = 0; t < sizes().size(); ++t) {
      std::vector<Floats> buffers;
      for (int rank = 0; rank < ranks; ++rank) buffers.push_back(values_of(rank, round, t));
      results.push_back(kernels::onebit_average(buffers, errors[t]));
    }
  }
  return all;
}

struct Made {
  std::vector<Floats> values;
  std::vector<OneBitTensor> tensors;
};

OneBitTensor tensor_of(int64_t n, int ranks, Stream& stream) {
  const int64_t padded = kernels::onebit_padded_numel(n, ranks);
  return {.parts = {{.values = Tensor::zeros({n}, DType::kF32, stream)}},
          .worker = Tensor::zeros({padded}, DType::kF32, stream),
          .server = Tensor::zeros({padded / ranks}, DType::kF32, stream)};
}

void check_round(Communicator& comm, const OneBitTensor& tensor, const Floats& wanted) {
  const float* got = tensor.parts[0].values.data<float>();
  for (size_t i = 0; i < wanted.size(); ++i) {
    require(std::abs(got[i] - wanted[i]) <= 1e-6F * std::abs(wanted[i]),
            "element {} on rank {} is {}, expected {}", i, comm.rank(), got[i], wanted[i]);
  }
  const Tensor mine = tensor.parts[0].values;
  test::RankStream own(comm);
  Tensor all = Tensor::empty({mine.numel() * comm.size()}, DType::kF32, own.stream);
  comm.all_gather(mine, all, own.stream);
  for (int64_t i = 0; i < all.numel(); ++i) {
    require(all.data<float>()[i] == got[i % mine.numel()], "ranks differ in element {}", i);
  }
}

TEST_CASE("averages in one bit are those of all ranks in one place, alike on every rank",
          "[comm]") {
  for (const int ranks : {2, 3, 4, 8}) {
    CAPTURE(ranks);
    const auto wanted = expected(ranks);
    test::run_ranks(ranks, [&](Communicator& comm) {
      test::RankStream own(comm);
      std::vector<OneBitTensor> tensors;
      for (const int64_t n : sizes()) tensors.push_back(tensor_of(n, ranks, own.stream));
      OneBitComm onebit(comm);
      for (int64_t round = 0; round < kRounds; ++round) {
        for (size_t t = 0; t < tensors.size(); ++t) {
          const Floats values = values_of(comm.rank(), round, t);
          std::copy(values.begin(), values.end(), tensors[t].parts[0].values.data<float>());
        }
        onebit.average(tensors, own.stream);
        for (size_t t = 0; t < tensors.size(); ++t) {
          check_round(comm, tensors[t], nth(wanted, round)[t]);
        }
      }
    });
  }
}

TEST_CASE("several parts have one scale, where they lie in the errors", "[comm]") {
  constexpr int kRanks = 2;
  test::run_ranks(kRanks, [&](Communicator& comm) {
    test::RankStream own(comm);
    OneBitTensor whole = tensor_of(48, kRanks, own.stream);
    OneBitTensor parted = tensor_of(48, kRanks, own.stream);
    const Tensor values = Tensor::zeros({48}, DType::kF32, own.stream);
    parted.parts = {{.values = values.narrow(0, 8), .offset = 0},
                    {.values = values.narrow(8, 21), .offset = 8},
                    {.values = values.narrow(32, 16), .offset = 32}};
    const auto is_in_a_part = [](int64_t i) { return i < 29 || i >= 32; };
    for (int64_t i = 0; i < 48; ++i) {
      const float value = is_in_a_part(i) ? value_of(comm.rank(), 0, 0, i) : 0.0F;
      whole.parts[0].values.data<float>()[i] = values.data<float>()[i] = value;
    }
    OneBitComm(comm).average(std::span(&whole, 1), own.stream);
    OneBitComm(comm).average(std::span(&parted, 1), own.stream);
    for (int64_t i = 0; i < 48; ++i) {
      const float wanted = is_in_a_part(i) ? whole.parts[0].values.data<float>()[i] : 0.0F;
      require(values.data<float>()[i] == wanted, "element {}", i);
    }
  });
}

TEST_CASE("on the wire are a bit per number and two scales per tensor and rank", "[comm]") {
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    test::run_ranks(ranks, [&](Communicator& comm) {
      test::RankStream own(comm);
      CommVolume volume;
      TracedComm traced(comm, "data", {.volume = &volume});
      std::vector<OneBitTensor> tensors;
      int64_t bits = 0;
      for (const int64_t n : sizes()) {
        tensors.push_back(tensor_of(n, ranks, own.stream));
        bits += tensors.back().worker.numel();
      }
      OneBitComm(traced).average(tensors, own.stream);
      const int64_t scales = 4 * narrow<int64_t>(sizes().size()) * ranks;
      const int64_t share = ranks - 1;
      const int64_t wanted = 2 * (bits / 8 + scales) * share / ranks;
      require(volume.wire_bytes() == wanted, "{} bytes, expected {}", volume.wire_bytes(), wanted);
    });
  }
}

TEST_CASE("errors of another size than the numbers need are refused", "[comm]") {
  test::run_ranks(2, [&](Communicator& comm) {
    test::RankStream own(comm);
    const auto must_refuse = [&](const OneBitTensor& tensor, std::string_view why) {
      try {
        OneBitComm(comm).average(std::span(&tensor, 1), own.stream);
      } catch (const InternalError& error) {
        require(std::string_view(error.what()).find(why) != std::string_view::npos, "said '{}'",
                error.what());
        return;
      }
      throw InternalError("it went through");
    };
    OneBitTensor tensor = tensor_of(48, 2, own.stream);
    tensor.server = tensor.server.narrow(0, 8);
    must_refuse(tensor, "errors of 48 and 8 numbers over 2 ranks");
    tensor = tensor_of(48, 2, own.stream);
    tensor.parts[0].offset = 4;
    must_refuse(tensor, "48 numbers at 4 do not fit");
    tensor.parts[0].offset = 24;
    must_refuse(tensor, "48 numbers at 24 do not fit");
  });
}

}  // namespace
}  // namespace ds
