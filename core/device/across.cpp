#include "core/device/across.h"

namespace ds {

void copy_across(Stream& stream, Link link, const void* from, void* to, size_t bytes,
                 const BackgroundName& name) {
  if (stream.device().is_meta()) return report_across(stream, link, bytes);
  const BackgroundKind kind =
      link == Link::kToDevice ? BackgroundKind::kToDevice : BackgroundKind::kToHost;
  const BackgroundSpan span(stream, kind, name, static_cast<int64_t>(bytes));
  stream.copy(from, to, bytes);
}

void report_across(Stream& stream, Link link, size_t bytes) {
  stream.report(name_of(link), {.flops = 0, .bytes = static_cast<double>(bytes)});
}

}  // namespace ds
