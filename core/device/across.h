// Copies between tiers: over the link between a device and its host, and between the host and its
// disk. A trace hears of each by the link's name, with the bytes that pass, so that a dry run can
// count them and knows what they take there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/device/background_log.h"
#include "core/device/link.h"
#include "core/device/stream.h"

namespace ds {

// As Stream::copy, over kToDevice or kToHost. On a CPU that plays both sides it is a copy. `name`:
// what it is, for the stream's BackgroundLog.
void copy_across(Stream& stream, Link link, const void* from, void* to, size_t bytes,
                 const BackgroundName& name);
// What others move, of which the stream knows by events alone.
void report_across(Stream& stream, Link link, size_t bytes);

}  // namespace ds
