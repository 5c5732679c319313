// Fuzzes what `dslaunch report`, `trace` and `lr-range-test` read of a run directory: its
// metrics.jsonl, report.json, plan.json and the lines of a trace, and the page and pictures that
// are made of them.
#include "launcher/report/page/report_page.h"
#include "launcher/report/rates/lr_range.h"
#include "launcher/report/trace_file.h"
#include "tests/fuzz/one_input.h"

namespace {

void expect(bool holds, const char* what) {
  if (!holds) throw ds::InternalError(what);
}

void expect_harmless(const std::string& page) {
  constexpr size_t kMost = 1 << 20;  // an input has 4 KiB
  expect(page.size() < kMost, "a page without end");
  expect(page.find('\x1b') == std::string::npos, "an escape sequence in a page");
  expect(page.find("<script") == std::string::npos, "markup of others in a page");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const ds::MetricCurves curves = ds::metric_curves(text);
  for (const ds::RunFiles& files :
       {ds::RunFiles{.name = text, .metrics = curves}, ds::RunFiles{.name = "r", .report = text},
        ds::RunFiles{.name = "r", .report = text, .plan = text}}) {
    ds::fuzz::expect_refusal_or_success([&] { expect_harmless(ds::report_page(files)); });
  }
  ds::fuzz::expect_refusal_or_success([&] {
    const ds::LrRange range = ds::lr_range_of(curves);
    expect_harmless(ds::lr_range_plot(range));
    expect_harmless(ds::lr_range_text(range));
  });
  ds::fuzz::expect_refusal_or_success([&] { static_cast<void>(ds::trace_file(text, 1)); });
  return 0;
}
