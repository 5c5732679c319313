// Quantizers of tensors; see quantize.h.
#include "kernels/quantize/quantize.h"

#include "core/device/dispatch.h"
#include "kernels/front/argument.h"
#include "kernels/quantize/quantize_cpu.h"
#include "kernels/quantize/quantize_cuda.h"
#include "kernels/quantize/quantize_operands.h"

namespace ds::kernels {
namespace {

using detail::require_dtype;
using detail::require_numel;

template <class T>
T* at(const Tensor& tensor) {
  return static_cast<T*>(tensor.address());
}

template <class T>
Tensor scratch_for(int64_t count, Stream& stream) {
  return Tensor::empty({count * static_cast<int64_t>(sizeof(T))}, DType::kU8, stream,
                       MemoryTag::kScratch);
}

void require_numbers(std::string_view op, std::string_view operand, const Stream& stream,
                     const Tensor& tensor, int64_t numel) {
  require_numel(op, operand, stream, tensor, numel);
  detail::require_float(op, operand, tensor);
}

double bytes_of(const Tensor& tensor) {
  return tensor.defined() ? static_cast<double>(tensor.bytes()) : 0.0;
}

void report(Stream& stream, std::string_view op, int64_t numel, double flops_each, double bytes) {
  stream.report(op, {.flops = flops_each * static_cast<double>(numel), .bytes = bytes});
}

detail::LevelsView checked(std::string_view op, const Stream& stream, const GroupCodes& codes,
                           const GroupQuant& how) {
  how.check();
  const int64_t numel = how.rows * how.columns;
  require_numel(op, "q", stream, codes.q, how.bits == 4 ? numel / 2 : numel);
  require_dtype(op, "q", codes.q, DType::kU8);
  detail::require_like(op, "scale", stream, codes.scale, how.group_count(), DType::kF32);
  detail::require_like(op, "min", stream, codes.min, how.group_count(), DType::kF32);
  return {at<uint8_t>(codes.q), at<float>(codes.scale), at<float>(codes.min), how};
}

struct Operand {
  std::string_view op, q, scale, offset;  // names
};

// Checks the codes of `ranks` ranks that have `numel` numbers each.
detail::CodesView checked(const Operand& name, const Stream& stream, const IntCodes& codes,
                          const IntQuant& how, int64_t ranks, int64_t numel) {
  how.check();
  if (numel % how.group_size != 0) {
    throw ConfigError(
        fmt::format("quantize: {} numbers cannot be cut into groups of {}", numel, how.group_size));
  }
  const int64_t groups = ranks * (numel / how.group_size);
  require_numel(name.op, name.q, stream, codes.q, ranks * how.code_bytes(numel));
  require_dtype(name.op, name.q, codes.q, DType::kI8);
  detail::require_like(name.op, name.scale, stream, codes.scale, groups, DType::kF32);
  if (how.range == IntRange::kSymmetric) {
    DS_CHECK(!codes.offset.defined(), "{}: {} is given, but the range is symmetric", name.op,
             name.offset);
  } else {
    detail::require_like(name.op, name.offset, stream, codes.offset, groups, DType::kF32);
  }
  return {.q = at<int8_t>(codes.q),
          .scale = at<float>(codes.scale),
          .offset = codes.offset.defined() ? at<float>(codes.offset) : nullptr,
          .bits = how.bits,
          .range = how.range,
          .group_size = how.group_size};
}

double bytes_of(const IntCodes& codes) {
  return bytes_of(codes.q) + bytes_of(codes.scale) + bytes_of(codes.offset);
}

}  // namespace

void fake_quantize(Stream& stream, const Tensor& x, const FakeQuant& how, Tensor& y) {
  constexpr std::string_view kOp = "fake_quantize";
  DS_CHECK(x.defined(), "{}: x is undefined", kOp);
  const int64_t numel = x.numel();
  require_numbers(kOp, "x", stream, x, numel);
  require_numel(kOp, "y", stream, y, numel);
  require_dtype(kOp, "y", y, x.dtype());
  how.check(numel);
  const detail::GroupParts parts = detail::parts_of(how.groups, numel / how.groups);
  const bool by_magnitude = how.by_magnitude();
  const Tensor of_parts = by_magnitude ? scratch_for<Magnitudes>(parts.count(), stream)
                                       : scratch_for<Range>(parts.count(), stream);
  const Tensor of_groups = by_magnitude ? scratch_for<FakeMagnitude>(parts.groups, stream)
                                        : scratch_for<FakeScale>(parts.groups, stream);
  report(stream, kOp, numel, by_magnitude ? 8 : 10, 2 * bytes_of(x) + bytes_of(y));
  if (numel == 0) return;
  const detail::FakeOperands operands{.x = x,
                                      .y = y,
                                      .how = how,
                                      .parts = parts,
                                      .ranges = at<Range>(of_parts),
                                      .magnitudes = at<Magnitudes>(of_parts),
                                      .scales = at<FakeScale>(of_groups),
                                      .levels = at<FakeMagnitude>(of_groups)};
  on_device(
      stream, [&](Cpu) { detail::fake_quantize_cpu(stream, operands); },
      [&](Cuda) { detail::fake_quantize_cuda(stream, operands); });
}

void quantize_groups(Stream& stream, const Tensor& x, const GroupQuant& how,
                     const GroupCodes& codes) {
  constexpr std::string_view kOp = "quantize_groups";
  const detail::LevelsView to = checked(kOp, stream, codes, how);
  const int64_t numel = how.rows * how.columns;
  require_numbers(kOp, "x", stream, x, numel);
  // Groups along axis 0 have no parts: their numbers lie apart, and a thread goes down a column.
  const detail::GroupParts parts = detail::parts_of(how.group_count(), how.group_size);
  const Tensor ranges = scratch_for<Range>(how.group_axis == 0 ? 0 : parts.count(), stream);
  report(stream, kOp, numel, 6, 2 * bytes_of(x) + bytes_of(codes.q));
  if (numel == 0) return;
  on_device(
      stream, [&](Cpu) { detail::quantize_groups_cpu(stream, x, to); },
      [&](Cuda) { detail::quantize_groups_cuda(stream, x, parts, at<Range>(ranges), to); });
}

void dequantize_groups(Stream& stream, const GroupCodes& codes, const GroupQuant& how, Tensor& y) {
  constexpr std::string_view kOp = "dequantize_groups";
  const detail::LevelsView from = checked(kOp, stream, codes, how);
  require_numbers(kOp, "y", stream, y, how.rows * how.columns);
  report(stream, kOp, y.numel(), 2, bytes_of(codes.q) + bytes_of(y));
  if (y.numel() == 0) return;
  on_device(
      stream, [&](Cpu) { detail::dequantize_groups_cpu(stream, from, y); },
      [&](Cuda) { detail::dequantize_groups_cuda(stream, from, y); });
}

void IntQuant::check() const {
  if (bits != 4 && bits != 8) {
    throw ConfigError(fmt::format("quantize: bits is {}, expected 4 or 8", bits));
  }
  if (group_size < 1) {
    throw ConfigError(fmt::format("quantize: group_size is {}, expected at least 1", group_size));
  }
}

void quantize_int(Stream& stream, const Tensor& x, const IntQuant& how, const IntCodes& codes) {
  constexpr Operand kNames{"quantize_int", "q", "scale", "offset"};
  DS_CHECK(x.defined(), "{}: x is undefined", kNames.op);
  require_numbers(kNames.op, "x", stream, x, x.numel());
  const detail::CodesView to = checked(kNames, stream, codes, how, 1, x.numel());
  const detail::GroupParts parts = detail::parts_of(x.numel() / how.group_size, how.group_size);
  const Tensor ranges = scratch_for<Range>(parts.count(), stream);
  report(stream, kNames.op, x.numel(), 6, 2 * bytes_of(x) + bytes_of(codes));
  if (x.numel() == 0) return;
  on_device(
      stream, [&](Cpu) { detail::quantize_int_cpu(stream, x, parts, at<Range>(ranges), to); },
      [&](Cuda) { detail::quantize_int_cuda(stream, x, parts, at<Range>(ranges), to); });
}

void dequantize_int(Stream& stream, const IntCodes& codes, const IntQuant& how, Tensor& y) {
  constexpr Operand kNames{"dequantize_int", "q", "scale", "offset"};
  DS_CHECK(y.defined(), "{}: y is undefined", kNames.op);
  require_numbers(kNames.op, "y", stream, y, y.numel());
  const detail::CodesView from = checked(kNames, stream, codes, how, 1, y.numel());
  report(stream, kNames.op, y.numel(), 2, bytes_of(codes) + bytes_of(y));
  if (y.numel() == 0) return;
  on_device(
      stream, [&](Cpu) { detail::dequantize_int_cpu(stream, from, y); },
      [&](Cuda) { detail::dequantize_int_cuda(stream, from, y); });
}

void sum_codes(Stream& stream, const SumCodesArgs& args) {
  constexpr Operand kFrom{"sum_codes", "from.q", "from.scale", "from.offset"};
  constexpr Operand kTo{"sum_codes", "to.q", "to.scale", "to.offset"};
  DS_CHECK(args.ranks >= 1 && args.numel >= 0, "{}: {} numbers of {} ranks", kFrom.op, args.numel,
           args.ranks);
  const detail::RankCodes from{
      .first = checked(kFrom, stream, args.from, args.from_how, args.ranks, args.numel),
      .ranks = args.ranks,
      .bytes = args.from_how.code_bytes(args.numel),
      .groups = args.numel / args.from_how.group_size};
  const detail::CodesView to = checked(kTo, stream, args.to, args.to_how, 1, args.numel);
  const int64_t size = args.to_how.group_size;
  const detail::GroupParts parts = detail::parts_of(args.numel / size, size);
  const Tensor ranges = scratch_for<Range>(parts.count(), stream);
  report(stream, kFrom.op, args.numel, 6 * static_cast<double>(args.ranks) + 6,
         2 * bytes_of(args.from) + bytes_of(args.to));
  if (args.numel == 0) return;
  on_device(
      stream, [&](Cpu) { detail::sum_codes_cpu(stream, from, parts, at<Range>(ranges), to); },
      [&](Cuda) { detail::sum_codes_cuda(stream, from, parts, at<Range>(ranges), to); });
}

}  // namespace ds::kernels
