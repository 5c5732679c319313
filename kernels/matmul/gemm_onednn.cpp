// oneDNN's matrix product; see gemm.h. It is called single-threaded from each thread of the pool:
// our split does not depend on an OpenMP runtime, and one pool serves the whole rank.
#include <algorithm>
#include <array>
#include <atomic>
#include <dnnl.hpp>
#include <map>
#include <vector>

#include "core/status/error.h"
#include "core/tasks/thread_pool.h"
#include "core/values/index.h"
#include "kernels/cpu/simd.h"
#include "kernels/elementwise/spans.h"
#include "kernels/matmul/gemm.h"

// This is of libgomp, which Debian's oneDNN is built on; the header would need -fopenmp for the
// whole layer.
extern "C" void omp_set_num_threads(int threads);

namespace ds::kernels::detail {
namespace {

using dnnl::memory;

memory::data_type onednn_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return memory::data_type::f32;
    case DType::kBF16:
      return memory::data_type::bf16;
    default:
      throw Unsupported(fmt::format("gemm: no {} product in oneDNN", name_of(dtype)));
  }
}

using Key = std::array<int64_t, 12>;

struct Primitive {
  memory::desc a, b, c, bias;
  dnnl::matmul run;
  size_t scratch_bytes = 0;
};

struct Worker {  // one per thread of the pool
  dnnl::stream queue;
  memory scratch;
  size_t scratch_bytes = 0;
};

struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::map<Key, Primitive> primitives;
  std::vector<Worker> workers;
  int bf16 = -1;  // unknown, 0 or 1
};

memory::desc operand_desc(const GemmOperand& x, int64_t rows, int64_t columns) {
  const memory::dims strides =
      x.transpose == Transpose::kNo ? memory::dims{x.row_stride, 1} : memory::dims{1, x.row_stride};
  return {{rows, columns}, onednn_type(x.dtype), strides};
}

Primitive make_primitive(Library& library, const Gemm& g, int64_t m, int64_t n) {
  Primitive p;
  p.a = operand_desc(g.a, m, g.k);
  p.b = operand_desc(g.b, g.k, n);
  p.c = operand_desc(g.c, m, n);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (g.write == Write::kAccumulate) {
    dnnl::post_ops post;
    post.append_sum(1.0F);
    attr.set_post_ops(post);
  }
  if (g.bias != nullptr) {
    p.bias = {{1, n}, onednn_type(g.bias_dtype), memory::dims{n, 1}};
  }
  const auto desc = g.bias == nullptr ? dnnl::matmul::desc(p.a, p.b, p.c)
                                      : dnnl::matmul::desc(p.a, p.b, p.bias, p.c);
  const dnnl::matmul::primitive_desc made(desc, attr, library.engine, true);
  if (made.get(true) == nullptr) {
    throw Unsupported(fmt::format("gemm: oneDNN has no {} x {} -> {} product on this machine",
                                  name_of(g.a.dtype), name_of(g.b.dtype), name_of(g.c.dtype)));
  }
  p.scratch_bytes = made.scratchpad_desc().get_size();
  p.run = dnnl::matmul(made);
  return p;
}

const Primitive& primitive_for(Library& library, const Gemm& g, int64_t m, int64_t n) {
  const int64_t bias = g.bias == nullptr ? -1 : static_cast<int64_t>(g.bias_dtype);
  const Key key{m,
                n,
                g.k,
                g.a.row_stride,
                g.b.row_stride,
                g.c.row_stride,
                static_cast<int64_t>(g.a.transpose),
                static_cast<int64_t>(g.b.transpose),
                static_cast<int64_t>(g.a.dtype),
                static_cast<int64_t>(g.c.dtype),
                bias,
                static_cast<int64_t>(g.write)};
  const auto found = library.primitives.find(key);
  if (found != library.primitives.end()) return found->second;
  return library.primitives.emplace(key, make_primitive(library, g, m, n)).first->second;
}

const std::byte* at(const void* data, int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(data) + elements * static_cast<int64_t>(size_of(dtype));
}

void run_block(Library& library, const Primitive& p, Worker& worker, const Gemm& g,
               const GemmBlock& block) {
  const auto bind = [&](const memory::desc& desc, const std::byte* data) {
    return memory(desc, library.engine, const_cast<std::byte*>(data));
  };
  const bool a_columns = g.a.transpose == Transpose::kYes;
  const bool b_columns = g.b.transpose == Transpose::kYes;
  const auto* a = at(g.a.data, block.row * (a_columns ? 1 : g.a.row_stride), g.a.dtype);
  const auto* b = at(g.b.data, block.column * (b_columns ? g.b.row_stride : 1), g.b.dtype);
  const auto* c = at(g.c.data, block.row * g.c.row_stride + block.column, g.c.dtype);
  if (worker.scratch_bytes < p.scratch_bytes) {
    worker.scratch = memory(
        {{static_cast<int64_t>(p.scratch_bytes)}, memory::data_type::u8, memory::format_tag::a},
        library.engine);
    worker.scratch_bytes = p.scratch_bytes;
  }
  std::unordered_map<int, memory> arguments{
      {DNNL_ARG_SRC, bind(p.a, a)}, {DNNL_ARG_WEIGHTS, bind(p.b, b)}, {DNNL_ARG_DST, bind(p.c, c)}};
  if (g.bias != nullptr) {
    arguments.emplace(DNNL_ARG_BIAS, bind(p.bias, at(g.bias, block.column, g.bias_dtype)));
  }
  if (p.scratch_bytes > 0) arguments.emplace(DNNL_ARG_SCRATCHPAD, worker.scratch);
  p.run.execute(worker.queue, arguments);
}

// Blocks of c along its longer side, so that the operand that all blocks read is the smaller one.
// The shape alone decides: oneDNN's order of summation depends on the block, and equal products
// must have equal bits for any number of threads. A multiple of kUnit keeps every block on the fast
// paths.
std::vector<GemmBlock> split(const Gemm& g) {
  constexpr int64_t kUnit = 64;
  constexpr int64_t kShortest = 3 * kUnit;
  constexpr int64_t kMostBlocks = 8;
  const bool by_rows = g.m > g.n;
  const int64_t extent = by_rows ? g.m : g.n;
  const int64_t units = (extent + kMostBlocks * kUnit - 1) / (kMostBlocks * kUnit);
  const int64_t length = std::max(kShortest, units * kUnit);
  std::vector<GemmBlock> blocks;
  for (int64_t begin = 0; begin < extent; begin += length) {
    const int64_t count = std::min(length, extent - begin);
    blocks.push_back(by_rows ? GemmBlock{begin, count, 0, g.n} : GemmBlock{0, g.m, begin, count});
  }
  return blocks;
}

Library& library_of(Stream& stream) {
  auto& library = stream.state<Library>();
  omp_set_num_threads(
      1);  // of this thread: primitives are planned for as many as OpenMP would give
  while (narrow<int>(library.workers.size()) < stream.pool().threads()) {
    library.workers.push_back({dnnl::stream(library.engine), {}, 0});
  }
  return library;
}

void multiply_fp32_block(const Gemm& g, const GemmBlock& block) {
  const bool ta = g.a.transpose == Transpose::kYes;
  const bool tb = g.b.transpose == Transpose::kYes;
  const auto* a = static_cast<const float*>(g.a.data) + block.row * (ta ? 1 : g.a.row_stride);
  const auto* b = static_cast<const float*>(g.b.data) + block.column * (tb ? g.b.row_stride : 1);
  auto* c =
      static_cast<float*>(const_cast<void*>(g.c.data)) + block.row * g.c.row_stride + block.column;
  const float beta = g.write == Write::kAccumulate ? 1.0F : 0.0F;
  const auto status =
      dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', block.rows, block.columns, g.k, 1.0F, a,
                 g.a.row_stride, b, g.b.row_stride, beta, c, g.c.row_stride);
  if (status != dnnl_success) {
    throw InternalError(fmt::format("gemm: oneDNN refused {} x {} x {} (status {})", block.rows,
                                    block.columns, g.k, static_cast<int>(status)));
  }
  if (g.bias != nullptr || g.activation != Activation::kNone || g.pre_activation != nullptr) {
    finish_block(g, block, c, g.c.row_stride);
  }
}

// oneDNN's BLAS call, on blocks that the shape alone decides: the threads share them as they come,
// and equal products have equal bits for any number of threads.
void multiply_fp32(Stream& stream, const Gemm& g) {
  const auto parts = [](int64_t extent, int64_t most) { return (extent + most - 1) / most; };
  const auto share = [&](int64_t extent, int64_t count, int64_t unit) {
    return parts(parts(extent, count), unit) * unit;
  };
  int64_t across = parts(g.n, 384);
  int64_t down = parts(g.m, 384);
  if (across * down < 8) across = parts(g.n, 192);
  if (across * down < 8) down = parts(g.m, 128);
  const int64_t rows = share(g.m, down, 16);
  const int64_t columns = share(g.n, across, 48);
  const int64_t blocks_down = parts(g.m, rows);
  const int64_t blocks = blocks_down * parts(g.n, columns);
  std::atomic<int64_t> next{0};
  const auto work = [&](int) {
    omp_set_num_threads(1);
    for (int64_t i = next.fetch_add(1); i < blocks; i = next.fetch_add(1)) {
      const int64_t row = i % blocks_down * rows;
      const int64_t column = i / blocks_down * columns;
      multiply_fp32_block(
          g, {row, std::min(rows, g.m - row), column, std::min(columns, g.n - column)});
    }
  };
  if (blocks == 1) {  // not worth waking anybody
    work(0);
  } else {
    stream.pool().for_each_thread(work);
  }
}

// From the product alone, kept in g.c, to the activated result in args.c.
void activate_block(const Gemm& g, const Gemm& args, const GemmBlock& block) {
  for (int64_t row = block.row; row < block.row + block.rows; ++row) {
    const auto* from = at(g.c.data, row * g.c.row_stride + block.column, g.c.dtype);
    const auto* to = at(args.c.data, row * args.c.row_stride + block.column, g.c.dtype);
    activation_span(g.activation, from, const_cast<std::byte*>(to), g.c.dtype, block.columns);
  }
}

}  // namespace

bool onednn_supports(Stream& stream, DType dtype) {
  if (dtype == DType::kF32) return true;
  if (dtype != DType::kBF16) return false;
  auto& library = stream.state<Library>();
  if (library.bf16 < 0) {
    const auto desc = [&](memory::data_type type) {
      return memory::desc({16, 16}, type, memory::format_tag::ab);
    };
    const auto bf16 = memory::data_type::bf16;
    const dnnl::matmul::primitive_desc made(
        dnnl::matmul::desc(desc(bf16), desc(bf16), desc(memory::data_type::f32)), library.engine,
        true);
    library.bf16 = made.get(true) != nullptr ? 1 : 0;
  }
  return library.bf16 == 1;
}

bool machine_prefers_onednn(Stream& stream, DType dtype) {
#if defined(__x86_64__)
  if (dtype == DType::kF32) return true;
  if (dtype != DType::kBF16 || !onednn_supports(stream, dtype)) return false;
  const bool amx = dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx;
  return amx || prefers_bf16_dots();
#else
  (void)stream;
  (void)dtype;
  return false;
#endif
}

void gemm_onednn(Stream& stream, const Gemm& args) {
  if (args.m == 0 || args.n == 0) return;
  if (args.a.dtype == DType::kF32 && args.c.dtype == DType::kF32) {
    multiply_fp32(stream, args);
    return;
  }
  Gemm g = args;  // the product alone, where it is kept
  if (g.pre_activation != nullptr) {
    g.c.data = g.pre_activation;
    g.c.row_stride = g.n;
  }
  Library& library = library_of(stream);
  const std::vector<GemmBlock> blocks = split(g);
  std::vector<const Primitive*> primitives;
  for (const GemmBlock& block : blocks) {
    primitives.push_back(&primitive_for(library, g, block.rows, block.columns));
  }
  std::atomic<size_t> next{0};
  stream.pool().for_each_thread([&](int index) {
    omp_set_num_threads(1);
    Worker& worker = nth(library.workers, index);
    for (size_t i = next.fetch_add(1); i < blocks.size(); i = next.fetch_add(1)) {
      run_block(library, *primitives[i], worker, g, blocks[i]);
      if (g.activation != Activation::kNone || g.pre_activation != nullptr) {
        activate_block(g, args, blocks[i]);
      }
    }
  });
}

}  // namespace ds::kernels::detail
