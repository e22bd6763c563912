// Host lists as SLURM writes them: many names in one short text, and back.
//
//   list := name , name , …
//   name := text [ranges] text [ranges] … text      each host without a comma, bracket, blank or control character
//   ranges := range , range , …
//   range := NUMBER | NUMBER-NUMBER                 padded with zeros to the width of the first number
//
// n[1-3,07-09],login is n1 n2 n3 n07 n08 n09 login. Where a name has several brackets, the rightmost varies fastest. The order
// and duplicates are kept. SLURM before version 23 refuses text behind the last bracket; here it is taken.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// What a short text may become: enough for any cluster, and too little to fill a memory.
inline constexpr std::size_t kMostHosts = 65'536;
inline constexpr std::size_t kLongestHost = 255;  // bytes, as in the domain name system

// An empty text names no hosts. UsageErrors that name `source`, and say what is wrong at which character.
std::vector<std::string> expandHostList(std::string_view text, const std::string& source);

// The inverse: expandHostList gives these hosts again. UsageError where one cannot stand in a list.
std::string compressHostList(const std::vector<std::string>& hosts);

// The names of a list, not yet expanded: what stands between commas that are in no brackets.
std::vector<std::string_view> splitHostList(std::string_view text);

}  // namespace cohort
