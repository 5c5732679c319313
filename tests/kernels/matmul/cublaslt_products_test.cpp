// cuBLASLt's descriptors, proven without a GPU: the products of tests/support/fake_cublaslt.cpp,
// which refuses what the library's documentation does, are those of the CPU.
#include "kernels/matmul/cublaslt_products.h"

#include "kernels/matmul/matmul_operands.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;
using detail::CublasLtProducts;
using detail::Gemm;

// The library, and a caller that gives it host memory.
struct Fake {
  Fake() {
    refuse(0);
    answer(CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_SUCCESS);
    offer({0});
  }
  void refuse(uint32_t epilogues) const {
    table.library.function<void (*)(uint32_t)>("fake_cublaslt_refuse")(epilogues);
  }
  // To products with an epilogue, where an algorithm is chosen and where they are given.
  void answer(cublasStatus_t choice, cublasStatus_t product) const {
    table.library.function<void (*)(int, int)>("fake_cublaslt_answer")(choice, product);
  }
  int given() const { return table.library.function<int (*)()>("fake_cublaslt_products")(); }
  int live() const { return table.library.function<int (*)()>("fake_cublaslt_live")(); }
  int heuristics() const { return table.library.function<int (*)()>("fake_cublaslt_heuristics")(); }
  // So many algorithms, by the seconds that they take; negative: it fails.
  void offer(const std::vector<double>& seconds) const {
    table.library.function<void (*)(const double*, int)>("fake_cublaslt_offer")(
        seconds.data(), static_cast<int>(seconds.size()));
  }
  double now() const { return table.library.function<double (*)()>("fake_cublaslt_now")(); }
  int last_run() const { return table.library.function<int (*)()>("fake_cublaslt_last_run")(); }
  CublasLtProducts::Timer timer() const {
    return [this](const std::function<void()>& give) {
      const double start = now();
      give();
      return now() - start;
    };
  }
  Gemm multiply(const MatmulArgs& args) {
    return products.multiply(detail::gemm_of(args), nullptr);
  }

  CublasLt table = cublaslt_of(Library({.name = "cuBLASLt",
                                        .purpose = "tests",
                                        .sonames = {DS_FAKE_CUBLASLT},
                                        .source = "the build of the tests"}));
  std::vector<std::byte> scratch = std::vector<std::byte>(256);
  CublasLtProducts products{table, {scratch.data(), scratch.size()}};
};

// Operands somewhere inside of larger tensors: `apart` elements between the rows, `offset` before
// the first.
struct Case {
  int64_t m, n, k;
  int64_t apart = 0, offset = 0;
};
const std::vector<Case> kCases{{1, 1, 1},      {3, 5, 7},        {17, 33, 65},
                               {64, 48, 32},   {1, 40, 16},      {40, 1, 16},
                               {16, 24, 8, 8}, {9, 16, 5, 3, 1}, {31, 8, 12, 1, 11}};

MatrixView view(int64_t rows, int64_t columns, const Case& c, DType dtype, uint64_t seed,
                Stream& stream) {
  const int64_t stride = columns + c.apart;
  return {random_tensor({c.offset + rows * stride}, dtype, seed, stream), rows, columns, stride,
          c.offset};
}

MatmulArgs arguments(const Case& c, int flags, DType dtype, DType c_dtype, Stream& s) {
  const bool ta = (flags & 1) != 0, tb = (flags & 2) != 0;
  return {.a = view(ta ? c.k : c.m, ta ? c.m : c.k, c, dtype, 1, s),
          .b = view(tb ? c.n : c.k, tb ? c.k : c.n, c, dtype, 2, s),
          .c = view(c.m, c.n, c, c_dtype, 3, s),
          .transpose_a = ta ? Transpose::kYes : Transpose::kNo,
          .transpose_b = tb ? Transpose::kYes : Transpose::kNo};
}

// The same product with a result of its own, holding what the first one's held.
MatmulArgs twin_of(const MatmulArgs& args, Stream& s) {
  MatmulArgs twin = args;
  const auto copy_of = [&](const Tensor& tensor) {
    return tensor.defined() ? tensor_of(values_of(tensor), tensor.shape(), tensor.dtype(), s)
                            : Tensor();
  };
  twin.c.tensor = copy_of(args.c.tensor);
  twin.pre_activation = copy_of(args.pre_activation);
  twin.bias_gradient = copy_of(args.bias_gradient);
  return twin;
}

void require_equal(const Tensor& actual, const Tensor& expected) {
  REQUIRE(error_of(actual, values_of(expected)) < 2 * tolerance_of(actual.dtype()));
}

}  // namespace

TEST_CASE("cuBLASLt's products of any views are those of the CPU", "[kernels]") {
  TestStream s;
  Fake fake;
  for (const DType dtype : float_dtypes()) {
    for (const Case& c : kCases) {
      for (int flags = 0; flags < 4; ++flags) {
        for (const DType c_dtype : {dtype, DType::kF32}) {
          for (const Write write : {Write::kOverwrite, Write::kAccumulate}) {
            MatmulArgs args = arguments(c, flags, dtype, c_dtype, s.stream);
            args.write = write;
            const MatmulArgs expected = twin_of(args, s.stream);
            CAPTURE(name_of(dtype), name_of(c_dtype), c.m, c.n, c.k, c.apart, c.offset, flags);
            CHECK_FALSE(has_epilogue(fake.multiply(args)));
            matmul(s.stream, expected);
            require_equal(args.c.tensor, expected.c.tensor);
          }
        }
      }
    }
  }
}

TEST_CASE("cuBLASLt does bias and activation where it has them, and else leaves all of them",
          "[kernels]") {
  struct Epilogue {
    Activation activation;
    bool bias, kept;
    int64_t n;
    bool fused;
  };
  auto epilogue = GENERATE(
      Epilogue{Activation::kNone, true, false, 21, true},
      Epilogue{Activation::kRelu, true, false, 21, true},
      Epilogue{Activation::kRelu, false, false, 21, true},
      Epilogue{Activation::kRelu, true, true, 16, false},  // it keeps a mask, and no values
      Epilogue{Activation::kGeluTanh, true, false, 21, true},
      Epilogue{Activation::kGeluTanh, false, false, 21, true},
      Epilogue{Activation::kGeluTanh, true, true, 24, true},
      Epilogue{Activation::kGeluTanh, false, true, 24, true},
      Epilogue{Activation::kGeluTanh, true, true, 21, false},  // rows of no whole 16 bytes
      Epilogue{Activation::kGeluExact, true, false, 24, false},
      Epilogue{Activation::kSilu, false, true, 24, false},
      Epilogue{Activation::kNone, false, true, 24, false});
  const DType dtype = GENERATE(DType::kF32, DType::kBF16, DType::kF16);
  // Its GELU may be an approximate one, as 16 bits are.
  if (dtype == DType::kF32 && epilogue.activation == Activation::kGeluTanh) epilogue.fused = false;
  CAPTURE(static_cast<int>(epilogue.activation), epilogue.bias, epilogue.kept, epilogue.n,
          name_of(dtype));
  TestStream s;
  Fake fake;
  MatmulArgs args = arguments({.m = 13, .n = epilogue.n, .k = 10}, 2, dtype, dtype, s.stream);
  args.activation = epilogue.activation;
  if (epilogue.bias) args.bias = random_tensor({epilogue.n}, dtype, 4, s.stream);
  if (epilogue.kept) args.pre_activation = random_tensor({13, epilogue.n}, dtype, 5, s.stream);
  MatmulArgs expected = twin_of(args, s.stream);
  const Values before = args.pre_activation.defined() ? values_of(args.pre_activation) : Values{};
  CHECK(has_epilogue(fake.multiply(args)) == !epilogue.fused);
  if (!epilogue.fused) {  // what kernels finish: the bare product, beside which nothing is written
    expected.bias = expected.pre_activation = {};
    expected.activation = Activation::kNone;
  }
  matmul(s.stream, expected);
  require_equal(args.c.tensor, expected.c.tensor);
  if (expected.pre_activation.defined()) {
    require_equal(args.pre_activation, expected.pre_activation);
  } else if (epilogue.kept) {
    CHECK(values_of(args.pre_activation) == before);
  }
}

TEST_CASE("cuBLASLt undoes GELU and sums the columns of a factor where it can", "[kernels]") {
  const DType dtype = GENERATE(DType::kF32, DType::kBF16, DType::kF16);
  TestStream s;
  Fake fake;
  const auto multiplied = [&](MatmulArgs args, bool fused) {
    const MatmulArgs expected = twin_of(args, s.stream);
    const Gemm left = fake.multiply(args);
    CHECK_FALSE(has_epilogue(left));
    CHECK(has_backward(left) == !fused);
    if (!fused) return;
    matmul(s.stream, expected);
    require_equal(args.c.tensor, expected.c.tensor);
    if (!args.bias_gradient.defined()) return;
    require_equal(args.bias_gradient, expected.bias_gradient);
  };
  const auto undoing = [&](Activation kind, int64_t n) {
    MatmulArgs args = arguments({.m = 9, .n = n, .k = 12}, 2, dtype, dtype, s.stream);
    args.activation_backward = kind;
    args.activation_input = random_tensor({9, n}, dtype, 7, s.stream);
    return args;
  };
  multiplied(undoing(Activation::kGeluTanh, 16), dtype != DType::kF32);
  multiplied(undoing(Activation::kGeluTanh, 17), false);
  multiplied(undoing(Activation::kGeluExact, 16), false);
  multiplied(undoing(Activation::kRelu, 16), false);
  const auto summing = [&](Factor of, DType sums, Write write) {
    MatmulArgs args = arguments({.m = 9, .n = 14, .k = 12, .apart = 3}, 1, dtype, dtype, s.stream);
    args.bias_gradient_of = of;
    args.bias_gradient = random_tensor({of == Factor::kA ? 9 : 14}, sums, 7, s.stream);
    args.write_bias_gradient = write;
    return args;
  };
  for (const Factor of : {Factor::kA, Factor::kB}) {
    multiplied(summing(of, dtype, Write::kOverwrite), true);
    multiplied(summing(of, dtype, Write::kAccumulate), false);
    if (dtype != DType::kF32) multiplied(summing(of, DType::kF32, Write::kOverwrite), false);
  }
  MatmulArgs both = undoing(Activation::kGeluTanh, 16);
  both.b = view(12, 16, {}, dtype, 2, s.stream);
  both.transpose_b = Transpose::kNo;
  both.bias_gradient = random_tensor({16}, dtype, 7, s.stream);
  multiplied(both, false);
}

TEST_CASE("a bias that lies or rounds otherwise than cuBLASLt has it is left", "[kernels]") {
  TestStream s;
  Fake fake;
  MatmulArgs args = arguments({.m = 4, .n = 8, .k = 8}, 0, DType::kBF16, DType::kBF16, s.stream);
  const Tensor biases = random_tensor({24}, DType::kBF16, 4, s.stream);
  args.bias = biases.narrow(8, 8);
  CHECK_FALSE(has_epilogue(fake.multiply(args)));
  args.bias = biases.narrow(9, 8);
  CHECK(has_epilogue(fake.multiply(args)));
  args.bias = random_tensor({8}, DType::kF32, 4, s.stream);
  CHECK(has_epilogue(fake.multiply(args)));
}

TEST_CASE("an epilogue without an algorithm is left, a product without one is refused",
          "[kernels]") {
  TestStream s;
  Fake fake;
  MatmulArgs args = arguments({.m = 4, .n = 8, .k = 8}, 0, DType::kBF16, DType::kBF16, s.stream);
  args.bias = random_tensor({8}, DType::kBF16, 4, s.stream);
  fake.refuse(CUBLASLT_EPILOGUE_BIAS);
  CHECK(has_epilogue(fake.multiply(args)));
  const int asked = fake.heuristics();
  CHECK(has_epilogue(fake.multiply(args)));
  CHECK(fake.heuristics() == asked);  // is not asked again for what it did not have
  fake.refuse(CUBLASLT_EPILOGUE_DEFAULT);
  args = arguments({.m = 5, .n = 8, .k = 8}, 0, DType::kF32, DType::kF32, s.stream);
  REQUIRE_THROWS_AS(fake.multiply(args), Unsupported);
  REQUIRE_THROWS_WITH(fake.multiply(args),
                      "matmul: cuBLASLt has no algorithm for 5 x 8 x 8 of fp32 -> fp32 "
                      "(row strides 8, 8, 8)");
}

TEST_CASE("an epilogue that cuBLASLt refuses, however it does, is left and not asked for again",
          "[kernels]") {
  const auto status = GENERATE(CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_ALLOC_FAILED,
                               CUBLAS_STATUS_ARCH_MISMATCH, CUBLAS_STATUS_NOT_SUPPORTED,
                               CUBLAS_STATUS_EXECUTION_FAILED, CUBLAS_STATUS_INTERNAL_ERROR);
  const bool where_chosen = GENERATE(true, false);
  CAPTURE(static_cast<int>(status), where_chosen);
  TestStream s;
  Fake fake;
  fake.answer(where_chosen ? status : CUBLAS_STATUS_SUCCESS,
              where_chosen ? CUBLAS_STATUS_SUCCESS : status);
  // Each with what a product is asked to do beside multiplying.
  MatmulArgs biased = arguments({.m = 5, .n = 8, .k = 8}, 0, DType::kBF16, DType::kBF16, s.stream);
  biased.bias = random_tensor({8}, DType::kBF16, 4, s.stream);
  MatmulArgs kept = biased;
  kept.activation = Activation::kGeluTanh;
  kept.pre_activation = random_tensor({5, 8}, DType::kBF16, 5, s.stream);
  MatmulArgs undoing = arguments({.m = 5, .n = 8, .k = 8}, 2, DType::kF16, DType::kF16, s.stream);
  undoing.activation_backward = Activation::kGeluTanh;
  undoing.activation_input = random_tensor({5, 8}, DType::kF16, 5, s.stream);
  MatmulArgs summing = arguments({.m = 5, .n = 8, .k = 8}, 1, DType::kF32, DType::kF32, s.stream);
  summing.bias_gradient = random_tensor({8}, DType::kF32, 5, s.stream);
  for (const MatmulArgs& args : {biased, kept, undoing, summing}) {
    MatmulArgs expected = twin_of(args, s.stream);
    expected.bias = expected.pre_activation = expected.bias_gradient = {};
    expected.activation = expected.activation_backward = Activation::kNone;
    const auto leaves_all = [&] {
      const Gemm left = fake.multiply(args);
      CHECK(has_epilogue(left) == (args.bias.defined() || args.pre_activation.defined()));
      CHECK(has_backward(left) ==
            (args.bias_gradient.defined() || args.activation_backward != Activation::kNone));
      matmul(s.stream, expected);
      require_equal(args.c.tensor, expected.c.tensor);
    };
    leaves_all();
    const int asked = fake.heuristics(), given = fake.given();
    leaves_all();
    CHECK(fake.heuristics() == asked);
    CHECK(fake.given() == given + 1);  // the bare product
  }
  // Another problem is asked for anew.
  fake.answer(CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_SUCCESS);
  MatmulArgs other = arguments({.m = 6, .n = 8, .k = 8}, 0, DType::kBF16, DType::kBF16, s.stream);
  other.bias = random_tensor({8}, DType::kBF16, 4, s.stream);
  CHECK_FALSE(has_epilogue(fake.multiply(other)));
  CHECK(has_epilogue(fake.multiply(biased)));
}

TEST_CASE("cuBLASLt is asked once for products of one shape, whose places may change",
          "[kernels]") {
  TestStream s;
  int live = 0;
  {
    Fake fake;
    live = fake.live();
    const int before = fake.heuristics();
    for (const uint64_t seed : {1, 2, 3}) {
      MatmulArgs args =
          arguments({.m = 6, .n = 16, .k = 8}, 0, DType::kBF16, DType::kBF16, s.stream);
      args.a.tensor = random_tensor({6, 8}, DType::kBF16, seed, s.stream);
      args.bias = random_tensor({16}, DType::kBF16, seed, s.stream);
      args.activation = Activation::kGeluTanh;
      args.pre_activation = random_tensor({6, 16}, DType::kBF16, 9, s.stream);
      const MatmulArgs expected = twin_of(args, s.stream);
      fake.multiply(args);
      matmul(s.stream, expected);
      require_equal(args.c.tensor, expected.c.tensor);
      require_equal(args.pre_activation, expected.pre_activation);
    }
    // It is asked again for less alignment, though: an algorithm may need what it was told of.
    CHECK(fake.heuristics() - before <= 3);
    CHECK(fake.live() > live);
  }
  CHECK(Fake().live() == live);  // nothing but handles is left of those before
}

TEST_CASE("factors of fp32 are TF32 where that is allowed, and no others are", "[kernels]") {
  TestStream s;
  Fake fake;
  CublasLtProducts products(fake.table, {fake.scratch.data(), fake.scratch.size()},
                            {.allow_tf32 = true});
  for (const DType dtype : float_dtypes()) {
    CAPTURE(name_of(dtype));
    MatmulArgs args = arguments({.m = 9, .n = 14, .k = 40}, 2, dtype, DType::kF32, s.stream);
    const MatmulArgs expected = twin_of(args, s.stream);
    products.multiply(detail::gemm_of(args), nullptr);
    matmul(s.stream, expected);
    const double error = error_of(args.c.tensor, values_of(expected.c.tensor));
    CHECK(error < 1e-3);
    CHECK((error > 1e-5) == (dtype == DType::kF32));
  }
}

namespace {

constexpr const char* kFile = "cache/dslaunch/matmul.txt";
const MatmulPlace kPlace{.gpu = "GPU of tests", .library = "cuBLASLt 130000"};

// One process of several that remember in one file.
struct Tuned {
  Tuned(const Fake& fake, FileSystem& files)
      : choices(files, kFile, kPlace),
        products(fake.table, {scratch.data(), scratch.size()}, {.choices = &choices}) {}
  std::vector<std::byte> scratch = std::vector<std::byte>(256);
  MatmulChoices choices;
  CublasLtProducts products;
};

MatmulArgs product_of(int64_t n, Stream& stream) {
  return arguments({.m = 9, .n = n, .k = 12}, 2, DType::kF32, DType::kF32, stream);
}

}  // namespace

TEST_CASE("of cuBLASLt's algorithms the quickest is taken, and remembered from run to run",
          "[kernels]") {
  TestStream s;
  Fake fake;
  MemoryFileSystem files;
  fake.offer({3e-3, -1, 2e-3, 5e-3, 1e-3, 4e-3, 6e-3, 7e-3, 1e-9});  // of the first eight
  const auto run = [&](Tuned& tuned, MatmulArgs args, Write write,
                       const CublasLtProducts::Timer& timer) {
    args.write = write;
    const MatmulArgs expected = twin_of(args, s.stream);
    tuned.products.multiply(detail::gemm_of(args), nullptr, timer);
    matmul(s.stream, expected);
    require_equal(args.c.tensor, expected.c.tensor);
    return fake.last_run();
  };
  const CublasLtProducts::Timer none;
  // The places of operands count, too: an algorithm may need them to be aligned.
  const MatmulArgs one = product_of(14, s.stream), other = product_of(11, s.stream);
  Tuned first(fake, files);
  // What is added up cannot be made again and again, and a recording has no time.
  CHECK(run(first, product_of(10, s.stream), Write::kAccumulate, fake.timer()) == 0);
  CHECK(run(first, product_of(16, s.stream), Write::kOverwrite, none) == 0);
  CHECK_FALSE(files.exists(kFile));
  CHECK(run(first, one, Write::kOverwrite, fake.timer()) == 4);
  const double start = fake.now();
  CHECK(run(first, one, Write::kOverwrite, fake.timer()) == 4);
  CHECK(fake.now() - start < 1.5e-3);  // tried once
  CHECK(run(first, one, Write::kAccumulate, none) == 4);

  fake.offer({1e-3, 2e-3, 3e-3, 4e-3, 5e-3});  // nobody asks again
  Tuned second(fake, files);
  CHECK(second.choices.problem().empty());
  CHECK(run(second, one, Write::kAccumulate, none) == 4);
  CHECK(run(second, one, Write::kOverwrite, fake.timer()) == 4);
  CHECK(run(second, other, Write::kOverwrite, fake.timer()) == 0);

  fake.offer({1e-3, 2e-3});  // what the file says is no algorithm any more
  Tuned third(fake, files);
  CHECK(run(third, one, Write::kOverwrite, fake.timer()) == 0);
}

TEST_CASE("what cuBLASLt refuses is told in its own words", "[kernels]") {
  TestStream s;
  Fake fake;
  CublasLtProducts lies{fake.table, {nullptr, 256}};  // scratch memory that is nowhere
  const MatmulArgs args =
      arguments({.m = 4, .n = 8, .k = 8}, 0, DType::kF32, DType::kF32, s.stream);
  REQUIRE_THROWS_WITH(lies.multiply(detail::gemm_of(args), nullptr),
                      "matmul: cuBLASLt, 4 x 8 x 8 of fp32: too small a workspace");
}

}  // namespace ds::kernels
