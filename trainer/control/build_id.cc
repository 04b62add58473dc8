// The build id is read from the program's image in memory, so no file has to be opened.
#include "trainer/control/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstdio>
#include <cstring>

namespace dtrain::control {
namespace {

size_t Padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

std::string BuildIdIn(const char* notes, size_t bytes) {
  for (size_t offset = 0; offset + sizeof(ElfW(Nhdr)) <= bytes;) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes + offset, sizeof note);
    const char* name = notes + offset + sizeof note;
    const char* content = name + Padded(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string text;
      char digits[3];
      for (size_t i = 0; i < note.n_descsz; ++i) {
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(content[i]));
        text += digits;
      }
      return text;
    }
    offset += sizeof note + Padded(note.n_namesz) + Padded(note.n_descsz);
  }
  return "";
}

// The first object that dl_iterate_phdr visits is the program itself; returning 1 ends the iteration there.
int FindInProgram(dl_phdr_info* info, size_t, void* result) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const auto* notes =
        reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);  // NOLINT: as the format has it
    auto& id = *static_cast<std::string*>(result);
    if (id = BuildIdIn(notes, header.p_memsz); !id.empty()) break;
  }
  return 1;
}

}  // namespace

std::string BuildId() {
  std::string id;
  dl_iterate_phdr(&FindInProgram, &id);
  return id.empty() ? "unknown" : id;
}

}  // namespace dtrain::control
