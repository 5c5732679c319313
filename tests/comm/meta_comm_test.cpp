#include "comm/meta_comm.h"

#include "tests/suites/communicator_suite.h"
#include "tests/support/catch.h"

using namespace ds;

TEST_CASE("a meta group checks shapes and moves nothing", "[comm]") {
  MetaComm comm(1, 4);
  Stream stream({Device::meta(), &comm.memory(), nullptr, nullptr});
  ds::test::check_caller_mistakes(comm, stream);
  Tensor full = Tensor::empty({40}, DType::kBF16, stream);
  Tensor shard = Tensor::empty({10}, DType::kBF16, stream);
  Tensor wide = Tensor::empty({10}, DType::kF32, stream);
  comm.all_reduce(full, ReduceOp::kSum, stream);
  comm.all_gather(shard, full, stream);
  comm.reduce_scatter(full, wide, ReduceOp::kAverage, stream);
  Tensor out = Tensor::empty({40}, DType::kBF16, stream);
  comm.all_to_all(full, out, stream);
  comm.broadcast(full, 3, stream);
  comm.send(full, 0, stream);
  comm.recv(full, 0, stream);
  comm.barrier();
  CHECK_THROWS_WITH(comm.split(0, 0), Catch::Contains("Mesh::meta"));
  CHECK_THROWS_AS(MetaComm(4, 4), Error);
}
