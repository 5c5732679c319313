#include "tests/support/catch.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"

using namespace ds;
using ds::test::RankStream;
using ds::test::require;
using ds::test::run_process_ranks;

TEST_CASE("ranks as processes sum a tensor", "[comm]") {
  for (const int64_t numel : {3, 5000, 300001}) {
    const auto results = run_process_ranks(3, [&](Communicator& comm) {
      RankStream rank(comm);
      Tensor t = Tensor::empty({numel}, DType::kF32, rank.stream);
      for (int64_t i = 0; i < numel; ++i) t.data<float>()[i] = static_cast<float>(i + comm.rank());
      comm.all_reduce(t, ReduceOp::kSum, rank.stream);
      for (int64_t i = 0; i < numel; ++i) {
        require(t.data<float>()[i] == static_cast<float>(3 * i + 3), "element {}", i);
      }
    });
    for (const auto& result : results) {
      CHECK(result.error == "");
      CHECK(result.status == 0);
    }
  }
}
