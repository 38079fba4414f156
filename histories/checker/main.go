// Porcupine's checker of linearizability, for the models of this package: histories on standard input, verdicts on
// standard output, both JSON. ../linearizable.py writes the one and reads the other.
//
// Input: {"seconds": 10, "parts": [{"name": "left", "model": "lists", "ops": [op, ...]}, ...]}. An op has the process
// that ran it, call and return in nanoseconds of one monotonic clock (no return: the outcome is unknown), and what it
// did: of "lists" {"reads": {"7": [1, 2]}, "appends": {"7": [3]}}, of "rows" {"do": "insert", "ids": [4]} or another
// verb of stepRows. Output: [{"name": "left", "verdict": "ok", "ops": 100, "seconds": 0.1}, ...]; the verdict is ok,
// illegal, or unknown if the time was not enough.
package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type op struct {
	Process int                `json:"process"`
	Call    int64              `json:"call"`
	Return  *int64             `json:"return"`
	Reads   map[string][]int64 `json:"reads"`
	Appends map[string][]int64 `json:"appends"`
	Do      string             `json:"do"`
	Ids     []int64            `json:"ids"`
	Count   *int               `json:"count"`
	Rows    [][2]int64         `json:"rows"`
}

type part struct {
	Name  string `json:"name"`
	Model string `json:"model"`
	Ops   []op   `json:"ops"`
}

type input struct {
	Seconds float64 `json:"seconds"`
	Parts   []part  `json:"parts"`
}

type verdict struct {
	Name    string  `json:"name"`
	Verdict string  `json:"verdict"`
	Ops     int     `json:"ops"`
	Seconds float64 `json:"seconds"`
}

func main() {
	var given input
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		fmt.Fprintln(os.Stderr, "no history:", err)
		os.Exit(2)
	}
	models := map[string]porcupine.Model{
		"lists": {Init: func() any { return lists{} }, Step: stepLists, Equal: sameLists, Hash: hashOfLists},
		"rows":  {Init: func() any { return "" }, Step: stepRows, Hash: func(s any) uint64 { return hashOf(s.(string)) }},
	}
	found := []verdict{}
	for _, each := range given.Parts {
		model, known := models[each.Model]
		if !known {
			fmt.Fprintln(os.Stderr, "no model is called", each.Model)
			os.Exit(2)
		}
		began := time.Now()
		limit := time.Duration(given.Seconds * float64(time.Second))
		outcome := porcupine.CheckOperationsTimeout(model, operations(each.Ops), limit)
		name := map[porcupine.CheckResult]string{porcupine.Ok: "ok", porcupine.Illegal: "illegal", porcupine.Unknown: "unknown"}
		found = append(found, verdict{each.Name, name[outcome], len(each.Ops), time.Since(began).Seconds()})
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		os.Exit(2)
	}
}

// operations gives an op without a return an interval that never ends: it may take effect at any time, or after all.
func operations(ops []op) []porcupine.Operation {
	found := make([]porcupine.Operation, len(ops))
	for i := range ops {
		end := int64(math.MaxInt64)
		if ops[i].Return != nil {
			end = *ops[i].Return
		}
		found[i] = porcupine.Operation{ClientId: ops[i].Process, Input: &ops[i], Call: ops[i].Call, Return: end}
	}
	return found
}

// A table of lists: of each key the length of its list, and a hash of its elements in order. The sum of what the keys
// have is kept beside them, as Porcupine compares states often.
type lists struct {
	of  map[string]list
	sum uint64
}

type list struct {
	length int
	hash   uint64
}

func (l list) with(elements []int64) list {
	for _, element := range elements {
		l.hash = (l.hash ^ uint64(element)) * 1099511628211
		l.hash ^= l.hash >> 29
		l.length++
	}
	return l
}

func (l list) weight(key string) uint64 {
	return hashOf(key+"/"+strconv.Itoa(l.length)) * (l.hash | 1)
}

func listOf(elements []int64) list { return list{hash: 14695981039346656037}.with(elements) }

func stepLists(state, given, _ any) (bool, any) {
	before, op := state.(lists), given.(*op)
	for key, elements := range op.Reads {
		if known, there := before.of[key]; there {
			if known != listOf(elements) {
				return false, nil
			}
		} else if len(elements) > 0 {
			return false, nil
		}
	}
	if len(op.Appends) == 0 {
		return true, before
	}
	after := lists{make(map[string]list, len(before.of)+1), before.sum}
	for key, known := range before.of {
		after.of[key] = known
	}
	for key, elements := range op.Appends {
		known, there := after.of[key]
		if there {
			after.sum -= known.weight(key)
		} else {
			known = listOf(nil)
		}
		after.of[key] = known.with(elements)
		after.sum += after.of[key].weight(key)
	}
	return true, after
}

func sameLists(one, other any) bool {
	a, b := one.(lists), other.(lists)
	if a.sum != b.sum || len(a.of) != len(b.of) {
		return false
	}
	for key, known := range a.of {
		if b.of[key] != known {
			return false
		}
	}
	return true
}

func hashOfLists(state any) uint64 { return state.(lists).sum }

func hashOf(text string) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(text))
	return hash.Sum64()
}

// stepRows is of the rows with one key, as text: "id:n id:n", sorted. A count that is not known fits any.
func stepRows(state, given, _ any) (bool, any) {
	text, op := state.(string), given.(*op)
	rows := parse(text)
	switch op.Do {
	case "scan":
		seen := map[int64]int64{}
		for _, row := range op.Rows {
			seen[row[0]] = row[1]
		}
		return len(seen) == len(op.Rows) && format(seen) == text, text
	case "delete", "touch":
		if op.Count != nil && *op.Count != len(rows) {
			return false, nil
		}
		if op.Do == "delete" {
			return true, ""
		}
		for id := range rows {
			rows[id]++
		}
	case "insert", "replace":
		for _, id := range op.Ids {
			rows[id] = 0
		}
	case "merge":
		for _, id := range op.Ids {
			if _, there := rows[id]; there {
				rows[id]++
			} else {
				rows[id] = 0
			}
		}
	default:
		panic("no verb is called " + op.Do)
	}
	return true, format(rows)
}

func parse(text string) map[int64]int64 {
	rows := map[int64]int64{}
	for _, row := range strings.Fields(text) {
		id, n, _ := strings.Cut(row, ":")
		key, _ := strconv.ParseInt(id, 10, 64)
		rows[key], _ = strconv.ParseInt(n, 10, 64)
	}
	return rows
}

func format(rows map[int64]int64) string {
	texts := make([]string, 0, len(rows))
	for id, n := range rows {
		texts = append(texts, fmt.Sprintf("%d:%d", id, n))
	}
	sort.Strings(texts)
	return strings.Join(texts, " ")
}
