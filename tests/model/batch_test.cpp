#include "model/pass/batch.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Kind = BatchField::Kind;

BatchSpec small_spec() {
  return BatchSpec(
      {{.name = "tokens", .shape = {5}},
       {.name = "token_order", .shape = {2, 5}, .kind = Kind::kOrder, .from = "tokens"},
       {.name = "targets", .shape = {5}},
       {.name = "weights", .dtype = DType::kF32, .shape = {5}},
       {.name = "weight_sum",
        .dtype = DType::kF64,
        .shape = {1},
        .kind = Kind::kWeightSum,
        .from = "targets"}});
}

template <class T>
void put(const MicroBatch& batch, std::string_view name, const std::vector<T>& values) {
  const std::span<T> to = batch.values<T>(name);
  REQUIRE(to.size() == values.size());
  std::ranges::copy(values, to.begin());
}

TEST_CASE("a micro-batch's fields lie in one block, each at a border, apart from each other",
          "[model]") {
  const BatchSpec spec = small_spec();
  const MicroBatch batch = host_batch(spec);
  CHECK(spec.bytes() == 5 * 256);
  CHECK(batch.block().bytes() == to_size(spec.bytes()));
  const auto* const begin = static_cast<const std::byte*>(batch.block().address());
  int64_t at = 0;
  for (const BatchField& field : spec.fields()) {
    const Tensor& tensor = batch.tensor(field.name);
    CHECK(tensor.dtype() == field.dtype);
    CHECK(tensor.shape() == field.shape);
    CHECK(static_cast<const std::byte*>(tensor.address()) - begin == at);
    at += 256;
  }
}

TEST_CASE("orders and sums of weights follow from what is given", "[model]") {
  const BatchSpec spec = small_spec();
  const MicroBatch batch = host_batch(spec);
  put<int32_t>(batch, "tokens", {4, 0, 4, 1, 0});
  put<int32_t>(batch, "targets", {1, -1, 0, -100, 2});
  put<float>(batch, "weights", {0.5F, 7, 0.25F, 9, 1});
  fill_derived(spec, batch);
  const std::span<int32_t> order = batch.values<int32_t>("token_order");
  CHECK(std::vector(order.begin(), order.end()) ==
        std::vector<int32_t>{1, 4, 3, 0, 2, 0, 0, 1, 4, 4});
  CHECK(batch.values<double>("weight_sum")[0] == 1.75);
  const BatchSpec unweighed({{.name = "targets", .shape = {5}}, spec.fields().back()});
  const MicroBatch other = host_batch(unweighed);
  other.copy_from(batch);
  fill_derived(unweighed, other);
  CHECK(other.values<double>("weight_sum")[0] == 3);
}

TEST_CASE("stages that want the same have it once, and others are refused", "[model]") {
  BatchSpec spec({{.name = "tokens", .shape = {5}}});
  spec.add(small_spec());
  CHECK(spec.fields().size() == 5);
  CHECK(spec.has("weights"));
  CHECK_FALSE(spec.has("labels"));
  CHECK_THROWS_WITH(spec.add(BatchSpec({{.name = "tokens", .shape = {6}}})),
                    Catch::Contains("stages want tokens as"));
}

TEST_CASE("a field that is not there is named", "[model]") {
  const MicroBatch batch{{"tokens", Tensor()}};
  CHECK(batch.has("tokens"));
  CHECK_FALSE(batch.find("targets").defined());
  CHECK_THROWS_WITH(batch.tensor("targets"), Catch::Contains("there is no field targets"));
  const MicroBatch small = host_batch(BatchSpec({{.name = "tokens", .shape = {4}}}));
  CHECK_THROWS_WITH(small.copy_from(host_batch(small_spec())),
                    Catch::Contains("tokens has 20 bytes, expected 16"));
}

}  // namespace
}  // namespace ds
