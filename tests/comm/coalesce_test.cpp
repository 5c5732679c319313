// Coalesced collectives over ranks as threads.
#include "comm/coalesce.h"

#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace ds {
namespace {

using test::RankStream;
using test::require;
using test::run_ranks;

TEST_CASE("one reduce-scatter serves tensors of different sizes", "[comm]") {
  const std::vector<int64_t> sizes = {8, 2, 1, 9};
  for (const int ranks : {1, 2, 3, 4}) {
    run_ranks(ranks, [&](Communicator& comm) {
      RankStream rank(comm);
      std::vector<Tensor> tensors;
      for (const int64_t size : sizes) {
        Tensor& t = tensors.emplace_back(Tensor::empty({size}, DType::kF32, rank.stream));
        for (int64_t i = 0; i < size; ++i)
          t.data<float>()[i] = static_cast<float>(i * comm.size() + comm.rank());
      }
      const auto pieces = reduce_scatter_coalesced(comm, tensors, ReduceOp::kAverage, rank.stream);
      const float mean_rank = static_cast<float>(comm.size() - 1) / 2;
      for (size_t t = 0; t < sizes.size(); ++t) {
        const int64_t piece = (sizes[t] + ranks - 1) / ranks;
        const int64_t begin = std::min(piece * comm.rank(), sizes[t]);
        const int64_t numel = std::min(piece, sizes[t] - begin);
        require(pieces[t].numel() == numel, "tensor {} has {} elements, expected {}", t,
                pieces[t].numel(), numel);
        for (int64_t i = 0; i < numel; ++i) {
          const float expected = static_cast<float>((begin + i) * ranks) + mean_rank;
          require(pieces[t].data<float>()[i] == Approx(expected), "tensor {} element {}", t, i);
        }
      }
    });
  }
}

TEST_CASE("dtypes cannot be mixed in one collective", "[comm]") {
  run_ranks(1, [](Communicator& comm) {
    RankStream rank(comm);
    const std::vector<Tensor> tensors = {Tensor::zeros({2}, DType::kF32, rank.stream),
                                         Tensor::zeros({2}, DType::kBF16, rank.stream)};
    bool refused = false;
    try {
      reduce_scatter_coalesced(comm, tensors, ReduceOp::kSum, rank.stream);
    } catch (const InternalError&) {
      refused = true;
    }
    require(refused, "mixed dtypes went through");
  });
}

}  // namespace
}  // namespace ds
