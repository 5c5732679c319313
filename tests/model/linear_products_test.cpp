// Which parts of a layer become one product, and that nothing but speed depends on it.
#include "model/functions/linear_products.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "model/modules/module.h"
#include "model/stores/plain_store.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/test_stream.h"

namespace ds {
namespace {

using kernels::Write;
using testing::CpuStream;
using testing::random_tensor;
using testing::TestStream;

std::vector<int64_t> outs_of(const std::vector<PartMemory>& parts) {
  std::vector<int64_t> outs;
  for (const PartMemory& part : parts) outs.push_back(part.out);
  return outs;
}

// Three parts of 4 inputs over one buffer of weights and one of biases, end to end.
struct SideBySide {
  CpuStream cpu;
  Tensor weights = random_tensor(cpu.stream, {36}, 1);
  Tensor biases = random_tensor(cpu.stream, {9}, 2);
  std::vector<PartMemory> parts = {part(0, 4), part(4, 2), part(6, 3)};

  PartMemory part(int64_t first, int64_t out) const {
    return {.out = out,
            .weight = weights.narrow(4 * first, 4 * out),
            .bias = biases.narrow(first, out)};
  }
};

TEST_CASE("parts that lie side by side are one product", "[model]") {
  SideBySide s;
  const auto one = join_neighbours(s.parts, WeightLayout::kOutIn);
  REQUIRE(outs_of(one) == std::vector<int64_t>{9});
  CHECK(one[0].weight.aliases(s.weights));
  CHECK(one[0].weight.numel() == 36);
  CHECK(one[0].bias.aliases(s.biases));
  CHECK(one[0].bias.numel() == 9);
  for (PartMemory& part : s.parts) part.bias = Tensor();
  const auto unbiased = join_neighbours(s.parts, WeightLayout::kOutIn);
  REQUIRE(outs_of(unbiased) == std::vector<int64_t>{9});
  CHECK_FALSE(unbiased[0].bias.defined());
}

TEST_CASE("parts that differ in anything stay apart, their neighbours not", "[model]") {
  const std::vector<int64_t> first_apart{4, 5}, last_apart{6, 3}, all_apart{4, 2, 3};
  const SideBySide s;
  CHECK(outs_of(join_neighbours(s.parts, WeightLayout::kInOut)) == all_apart);
  const auto joined_after = [&](const std::function<void(std::vector<PartMemory>&)>& change) {
    std::vector<PartMemory> parts = s.parts;
    change(parts);
    return outs_of(join_neighbours(parts, WeightLayout::kOutIn));
  };
  CpuStream cpu;
  const Tensor elsewhere = random_tensor(cpu.stream, {16}, 3);
  using Parts = std::vector<PartMemory>;
  CHECK(joined_after([](Parts& parts) { parts[2].bias = Tensor(); }) == last_apart);
  CHECK(joined_after([&](Parts& parts) { parts[0].weight = elsewhere; }) == first_apart);
  CHECK(joined_after([&](Parts& parts) { parts[2].bias = elsewhere.narrow(0, 3); }) == last_apart);
  CHECK(joined_after([](Parts& parts) { parts[1].write_weight = Write::kAccumulate; }) ==
        all_apart);
  CHECK(joined_after([](Parts& parts) { parts[0].write_bias = Write::kAccumulate; }) ==
        first_apart);
  CHECK(joined_after([](Parts& parts) { std::swap(parts[0], parts[1]); }) ==
        std::vector<int64_t>{2, 4, 3});
}

// Weights end to end in one buffer, and so are the gradients, as in a bucket.
class BucketStore final : public ParameterStore {
 public:
  explicit BucketStore(Stream& stream) : stream_(stream) {}

  ParamId add(ParamSpec spec) override {
    specs_.push_back(std::move(spec));
    return count() - 1;
  }
  void seal() override {
    weights = random_tensor(stream_, {begin_of(count())}, 11);
    gradients = Tensor::zeros({begin_of(count())}, DType::kF32, stream_);
  }
  int count() const override { return static_cast<int>(specs_.size()); }
  const ParamSpec& spec(ParamId id) const override { return specs_[to_size(id)]; }
  Lease acquire(ParamId id) override { return {part_of(weights, id), nullptr}; }
  GradSlot grad_slot(ParamId id) override { return {part_of(gradients, id), Write::kOverwrite}; }
  void grad_ready(ParamId id) override { ready.push_back(id); }
  void expect_uses(ParamId /*id*/, int /*uses*/) override {}

  Tensor part_of(const Tensor& bucket, ParamId id) const {
    const Shape& shape = spec(id).shape;
    return bucket.narrow(begin_of(id), shape.numel()).reshape(shape);
  }

  Tensor weights, gradients;
  std::vector<ParamId> ready;

 private:
  int64_t begin_of(ParamId id) const {
    int64_t begin = 0;
    for (ParamId before = 0; before < id; ++before) begin += spec(before).shape.numel();
    return begin;
  }

  Stream& stream_;
  std::vector<ParamSpec> specs_;
};

struct ProductCounter final : Trace {
  void on_op(std::string_view name, const OpCost&) override {
    products += name == "matmul" ? 1 : 0;
  }
  int products = 0;
};

struct Results {
  Tensor y, dx;
};

LinearSpec three_parts(ParameterStore& store, Bias bias) {
  const BuildContext root{.store = store, .dtype = DType::kF32, .path = "", .unit = 0};
  const auto part = [&](const char* name, int64_t out) {
    return linear_part(root.child(name), 12, out, WeightLayout::kOutIn, bias, 0.3);
  };
  LinearSpec spec{.parts = {part("q", 10), part("k", 5), part("v", 6)}, .in = 12};
  store.seal();
  return spec;
}

// y, and the gradients of sum(dy * y).
Results run(Stream& stream, ParameterStore& store, const LinearSpec& spec) {
  Tape tape;
  Context context{
      .stream = stream, .store = &store, .tape = &tape, .pass = {.mode = RunMode::kTrain}};
  const Var x = tape.watch(random_tensor(stream, {7, 12}, 21));
  const Var y = linear(context, x, spec);
  tape.seed(stream, y, random_tensor(stream, {7, 21}, 22));
  tape.backward(stream);
  return {.y = y.value, .dx = tape.take_gradient(x)};
}

double difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> left = testing::floats_of(a), right = testing::floats_of(b);
  REQUIRE(left.size() == right.size());
  double worst = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    worst = std::max(worst, std::abs(double{left[i]} - double{right[i]}));
  }
  return worst;
}

// How far the results over a bucket are from those over a buffer per parameter.
double compare_stores(Bias bias, int products_of_bucket) {
  ProductCounter counter;
  TestStream own(2, size_t{128} << 20, &counter);
  Stream& stream = own.stream;
  BucketStore bucket(stream);
  const Results joined = run(stream, bucket, three_parts(bucket, bias));
  CHECK(std::exchange(counter.products, 0) == products_of_bucket);
  PlainStore plain(stream, 5);
  const LinearSpec spec = three_parts(plain, bias);
  for (ParamId id = 0; id < plain.count(); ++id) {
    stream.copy(bucket.acquire(id).weight().address(), plain.weight(id).address(),
                plain.weight(id).bytes());
  }
  const Results apart = run(stream, plain, spec);
  CHECK(counter.products == 9);
  double worst = std::max(difference(joined.y, apart.y), difference(joined.dx, apart.dx));
  for (ParamId id = 0; id < plain.count(); ++id) {
    worst = std::max(worst, difference(bucket.grad_slot(id).grad, plain.gradient(id)));
  }
  return worst;
}

TEST_CASE("joined parts give what parts on their own do, in a third of the products",
          "[model][device]") {
  CHECK(compare_stores(Bias::kNone, 3) < 1e-5);
}

TEST_CASE("biases between the weights keep their products apart", "[model][device]") {
  CHECK(compare_stores(Bias::kZeros, 9) < 1e-5);
}

TEST_CASE("gradients of joined parts become ready in the order of the parts", "[model]") {
  CpuStream cpu;
  BucketStore store(cpu.stream);
  const LinearSpec spec = three_parts(store, Bias::kNone);
  run(cpu.stream, store, spec);
  CHECK(store.ready == std::vector<ParamId>{0, 1, 2});
}

}  // namespace
}  // namespace ds
