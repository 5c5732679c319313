// Initial weights: a function of seed, name and index, for any range and thread count.
#include "model/pass/initializer.h"

#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"

using namespace ds;
using testing::CpuStream;

namespace {

ParamSpec normal_spec(const std::string& name, const Shape& shape) {
  return {.name = name,
          .shape = shape,
          .dtype = DType::kF32,
          .init = {Initializer::Kind::kNormal, 0.02F},
          .unit = 0};
}

Tensor whole(CpuStream& cpu, const ParamSpec& spec, uint64_t seed, ThreadPool* pool = nullptr) {
  Tensor flat = Tensor::empty({spec.shape.numel()}, spec.dtype, cpu.stream);
  initialize(spec, seed, 0, flat, pool);
  return flat;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

}  // namespace

TEST_CASE("any range of a parameter starts with the bits of the whole", "[model]") {
  CpuStream cpu(3);
  const ParamSpec spec = normal_spec("w", {101, 97});
  const Tensor expected = whole(cpu, spec, 7);
  for (const int64_t begin : {0, 1, 2, 4095, 5001}) {
    Tensor range = Tensor::empty({spec.shape.numel() - begin}, DType::kF32, cpu.stream);
    initialize(spec, 7, begin, range, &cpu.pool);
    CHECK(same_bits(range, expected.narrow(begin, range.numel())));
  }
}

TEST_CASE("every cut of a parameter starts with the bits of the whole", "[model]") {
  CpuStream cpu(3);
  const Shape logical{60, 96};
  const Tensor expected = whole(cpu, normal_spec("w", logical), 7);
  const std::vector<std::pair<Cut, Shape>> cuts{
      {{{{{0, 60}}, {{8, 16}, {40, 48}, {72, 80}}}}, {60, 24}},  // packed projections
      {{{{{20, 60}}, {{0, 96}}}}, {40, 96}},                     // rows
      {{{{{1, 2}, {5, 31}}, {{0, 1}, {1, 50}, {95, 96}}}}, {27, 51}}};
  for (const auto& [cut, shape] : cuts) {
    ParamSpec spec = normal_spec("w", shape);
    spec.global = logical;
    spec.cut = cut;
    for (const int64_t begin : {int64_t{0}, int64_t{7}, int64_t{900}, shape.numel()}) {
      Tensor range = Tensor::empty({shape.numel() - begin}, DType::kF32, cpu.stream);
      Tensor same = Tensor::empty({shape.numel() - begin}, DType::kF32, cpu.stream);
      for (const Run& run : runs_of(spec.region(begin, shape.numel()), logical)) {
        for (int64_t i = 0; i < run.numel; ++i) {
          same.data<float>()[run.inside + i] = expected.data<float>()[run.first + i];
        }
      }
      initialize(spec, 7, begin, range, &cpu.pool);
      CHECK(same_bits(range, same));
      initialize(spec, 7, begin, range);
      CHECK(same_bits(range, same));
    }
  }
}

TEST_CASE("a parameter whose shape is not that of its cut is refused", "[model]") {
  CpuStream cpu;
  ParamSpec spec = normal_spec("w", {4, 2});
  spec.global = {4, 6};
  spec.cut = {{{{0, 4}}, {{1, 4}}}};
  Tensor range = Tensor::empty({8}, DType::kF32, cpu.stream);
  CHECK_THROWS_WITH(initialize(spec, 7, 0, range),
                    Catch::Contains("w: shape [4, 2], its cut of [4, 6] has [4, 3]"));
  spec.global = {4, 3};
  CHECK_THROWS_WITH(initialize(spec, 7, 0, range), Catch::Contains("[1, 4) on axis 1"));
}

TEST_CASE("initial weights have the deviation asked for and mean zero", "[model]") {
  CpuStream cpu;
  const Tensor w = whole(cpu, normal_spec("w", {200, 500}), 1);
  double sum = 0;
  double squares = 0;
  for (int64_t i = 0; i < w.numel(); ++i) {
    sum += double{w.data<float>()[i]};
    squares += double{w.data<float>()[i]} * double{w.data<float>()[i]};
  }
  const auto n = static_cast<double>(w.numel());
  CHECK(std::abs(sum / n) < 3 * 0.02 / std::sqrt(n));
  CHECK(std::sqrt(squares / n) == Approx(0.02).epsilon(0.01));
}

TEST_CASE("seed and name separate initial weights", "[model]") {
  CpuStream cpu;
  const Tensor w = whole(cpu, normal_spec("w", {64}), 1);
  CHECK_FALSE(same_bits(w, whole(cpu, normal_spec("w", {64}), 2)));
  CHECK_FALSE(same_bits(w, whole(cpu, normal_spec("v", {64}), 1)));
}

TEST_CASE("a low-precision initial weight is the rounded fp32 one", "[model]") {
  CpuStream cpu;
  ParamSpec spec = normal_spec("w", {33});
  const Tensor wide = whole(cpu, spec, 3);
  spec.dtype = DType::kBF16;
  const Tensor narrow = whole(cpu, spec, 3);
  for (int64_t i = 0; i < wide.numel(); ++i) {
    CHECK(narrow.data<BF16>()[i].bits == BF16(wide.data<float>()[i]).bits);
  }
}

TEST_CASE("a range outside the parameter is refused", "[model]") {
  CpuStream cpu;
  const ParamSpec spec = normal_spec("w", {10});
  Tensor range = Tensor::empty({4}, DType::kF32, cpu.stream);
  CHECK_THROWS_AS(initialize(spec, 1, 7, range), InternalError);
}
