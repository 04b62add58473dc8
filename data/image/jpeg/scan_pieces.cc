#include "data/image/jpeg/scan_pieces.h"

#include <algorithm>
#include <cstring>

namespace dtrain::data {
namespace {

using Bytes = std::span<const uint8_t>;

// Returns the offset of the next FF from `at` on that no zero follows, or bytes.size() if there is none.
size_t FindMarker(Bytes bytes, size_t at) {
  while (at + 1 < bytes.size()) {
    const void* found = std::memchr(bytes.data() + at, 0xFF, bytes.size() - 1 - at);
    if (found == nullptr) break;
    at = static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes.data());
    if (bytes[at + 1] != 0) return at;
    at += 2;
  }
  return bytes.size();
}

bool CutAtRestartMarkers(const BaselineHeader& header, std::vector<ScanPiece>& pieces) {
  const int64_t units = int64_t{header.units_across()} * header.units_down();
  size_t at = 0;
  for (int64_t begin = 0; begin < units; begin += header.restart_interval) {
    const size_t marker = FindMarker(header.scan, at);
    if (marker == header.scan.size()) return false;
    const int64_t end = std::min(units, begin + header.restart_interval);
    const auto number = static_cast<uint8_t>(begin / header.restart_interval % 8);
    if (end < units && header.scan[marker + 1] != 0xD0 + number) return false;
    pieces.push_back({.begin = begin, .end = end, .bytes = header.scan.subspan(at, marker - at)});
    at = marker + 2;
  }
  return true;
}

void CutAtSeekPoints(const BaselineHeader& header, std::vector<ScanPiece>& pieces) {
  const SeekPoints& points = *header.seek_points;
  const int64_t across = header.units_across(), units = across * header.units_down();
  ScanPiece piece;
  size_t at = 0, place = 0;
  while (piece.begin < units) {
    const int64_t column = piece.begin % across;
    piece.end = piece.begin + std::min<int64_t>(points.units, across - column);
    const bool last = piece.end == units;
    const SeekPoint next = last ? SeekPoint{} : points.Get(place++);
    const size_t size = last ? header.scan.size() - at : next.bytes + (next.bit > 0 ? 1 : 0);
    piece.bytes = header.scan.subspan(at, std::min(size, header.scan.size() - at));
    pieces.push_back(piece);
    at = std::min(at + next.bytes, header.scan.size());
    piece = {.begin = piece.end, .end = 0, .bytes = {}, .first_bit = next.bit, .dc = next.dc};
  }
}

}  // namespace

bool CutScan(const BaselineHeader& header, std::vector<ScanPiece>& pieces) {
  pieces.clear();
  if (header.restart_interval > 0) return CutAtRestartMarkers(header, pieces);
  if (header.seek_points) {
    CutAtSeekPoints(header, pieces);
  } else {
    pieces.push_back({.end = int64_t{header.units_across()} * header.units_down(), .bytes = header.scan});
  }
  return true;
}

std::span<const uint8_t> WithoutStuffing(Bytes bytes, size_t padding, std::vector<uint8_t>& memory) {
  if (memory.size() < bytes.size() + padding) memory.resize(bytes.size() + padding);
  uint8_t* to = memory.data();
  while (!bytes.empty()) {
    const void* found = std::memchr(bytes.data(), 0xFF, bytes.size());
    const size_t plain =
        found == nullptr ? bytes.size() : static_cast<size_t>(static_cast<const uint8_t*>(found) - bytes.data());
    std::memcpy(to, bytes.data(), plain);
    to += plain;
    bytes = bytes.subspan(plain);
    if (bytes.empty()) break;
    if (bytes.size() > 1 && bytes[1] != 0) break;  // a marker
    *to++ = 0xFF;                                  // a piece may end between FF and its zero
    bytes = bytes.subspan(std::min<size_t>(2, bytes.size()));
  }
  return {memory.data(), to};
}

}  // namespace dtrain::data
