/*-------------------------------------------------------------------------
 *
 * text_forms_cases.c
 *	  Ids as short texts: each digit in each place, each length, and what is refused.
 *
 * text_forms_cases() writes numbers and reads texts in all forms of text_forms.c.  It
 * compares each with a rule of its own, which divides by powers of the base and has the
 * digits by what a form leaves out of ASCII, and returns how many it compared.
 *
 * A text ends where memory ends that the process may read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "common/pg_prng.h"
#include "fmgr.h"

#include "cases.h"

PG_MODULE_MAGIC;

#include "../../src/layout.c"
#include "../../src/text_forms.c"

#define MOST_DIGITS 13

/* A form, by what its publisher says. */
typedef struct Rule
{
	const char	   *name;
	const char	   *without; /* digits and letters that it does not have */
	int				width;
	PGFunction		write;
	PGFunction		read;
	const TextForm *form;

	/* derived */
	char   digits[63];
	uint64 base;
	char   last[MOST_DIGITS + 1];
} Rule;

static Rule rules[] = {{"base32", "ILOUabcdefghijklmnopqrstuvwxyz", 13,
						snowflake_to_base32, snowflake_from_base32, &base32},
					   {"base58", "0OIl", 11, snowflake_to_base58,
						snowflake_from_base58, &base58},
					   {"base62", "", 11, snowflake_to_base62,
						snowflake_from_base62, &base62}};

static pg_prng_state chance;

/* --- The rule ------------------------------------------------------------------ */

/* What a digit in a place, from the left, is worth. */
static uint64
worth(const Rule *rule, int place)
{
	uint64 power = 1;

	for (int i = rule->width - 1; i > place; i--)
		power *= rule->base;
	return power;
}

static void
write_by_rule(const Rule *rule, uint64 number, char *text)
{
	for (int i = 0; i < rule->width; i++)
		text[i] = rule->digits[number / worth(rule, i) % rule->base];
	text[rule->width] = '\0';
}

static void
derive(Rule *rule)
{
	rule->base = 0;
	for (int c = '0'; c <= 'z'; c++)
		if (isalnum(c) && strchr(rule->without, c) == NULL)
			rule->digits[rule->base++] = c;
	write_by_rule(rule, PG_UINT64_MAX, rule->last);
}

/* The digit that a character is read as; NULL if none. */
static const char *
digit_by_rule(const Rule *rule, char c)
{
	if (rule->base == 32 && c >= 'a' && c <= 'z')
		c -= 'a' - 'A';
	if (rule->base == 32 && c == 'O')
		c = '0';
	if (rule->base == 32 && (c == 'I' || c == 'L'))
		c = '1';
	return c == '\0' ? NULL : strchr(rule->digits, c);
}

static const char *
culprit(char c)
{
	return c >= ' ' && c <= '~' ? psprintf("\"%c\"", c) :
								  psprintf("byte 0x%02x", (unsigned char) c);
}

/* The detail of the error that a text raises; NULL if it has a number. */
static const char *
fault_by_rule(const Rule *rule, const char *text, int length, uint64 *number)
{
	char digits[MOST_DIGITS + 1] = "";

	*number = 0;
	for (int i = 0; i < rule->width; i++)
	{
		const char *digit = i < length ? digit_by_rule(rule, text[i]) : NULL;

		if (i >= length)
			return psprintf("Character %d is missing.", i + 1);
		if (digit == NULL)
			return psprintf("Character %d, %s, is not in the alphabet.", i + 1,
							culprit(text[i]));
		digits[i] = *digit;
		*number += (digit - rule->digits) * worth(rule, i);
	}
	if (length > rule->width)
		return psprintf("Character %d, %s, is past the end.", rule->width + 1,
						culprit(text[rule->width]));
	for (int i = 0; i < rule->width; i++)
	{
		if (digits[i] < rule->last[i])
			break;
		if (digits[i] > rule->last[i])
			return psprintf("Character %d, %s, takes it past \"%s\", the last "
							"text of 64 bits.",
							i + 1, culprit(text[i]), rule->last);
	}
	return NULL;
}

/* --- Writing --------------------------------------------------------------------- */

static void
try_number(const Rule *rule, uint64 number)
{
	char  expected[MOST_DIGITS + 1];
	text *written = DatumGetTextPP(
		DirectFunctionCall1(rule->write, Int64GetDatum((int64) number)));

	snprintf(what_is_tried, sizeof(what_is_tried), "%s of " UINT64_FORMAT,
			 rule->name, number);
	write_by_rule(rule, number, expected);
	CHECK(VARSIZE_ANY_EXHDR(written) == rule->width);
	CHECK(memcmp(VARDATA_ANY(written), expected, rule->width) == 0);
}

/* --- Reading --------------------------------------------------------------------- */

static const Rule *read_rule;
static text		  *to_read;
static int64	   id_read;

static void
call_read(void)
{
	id_read = DatumGetInt64(
		DirectFunctionCall1(read_rule->read, PointerGetDatum(to_read)));
}

static void
try_error(const Rule *rule, const char *bytes, int length, const char *fault)
{
	ErrorData *error = raised_by(call_read);
	char	   quote[LAYOUT_QUOTE_SIZE];
	bool	   is_range = strstr(fault, "takes it past") != NULL;
	char	  *message;
	char	  *hint = psprintf("A %s text is exactly %d characters of \"%s\".",
							   rule->name, rule->width, rule->digits);

	layout_quote(bytes, bytes + length, quote);
	message = is_range ? psprintf("%s text \"%s\" is out of range", rule->name,
								  quote) :
						 psprintf("invalid %s text \"%s\"", rule->name, quote);
	CHECK(error != NULL);
	CHECK(error->sqlerrcode == (is_range ?
									ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE :
									ERRCODE_INVALID_TEXT_REPRESENTATION));
	CHECK(strcmp(error->message, message) == 0);
	CHECK(strcmp(error->detail, fault) == 0);
	CHECK(is_range ? error->hint == NULL : strcmp(error->hint, hint) == 0);
	FreeErrorData(error);
}

static char *end_of_page;

/* The text has the first bytes; the others stand behind it. */
static void
try_text(const Rule *rule, const char *bytes, int length, int behind)
{
	char	   *start = end_of_page - length - behind;
	uint64		expected;
	const char *fault = fault_by_rule(rule, bytes, length, &expected);
	uint64		number = ~UINT64CONST(0); /* what no text leaves there */
	int			at = -1;
	bool		is_good;

	snprintf(what_is_tried, sizeof(what_is_tried), "%s, %d of \"%s\"",
			 rule->name, length, bytes);
	memcpy(start, bytes, length + behind);
	is_good =
		read_number(rule->form, start, length, &number, &at) == TEXT_GOOD;
	CHECK(is_good == (fault == NULL));
	to_read = (text *) (start - VARHDRSZ_SHORT);
	SET_VARSIZE_SHORT(to_read, VARHDRSZ_SHORT + length);
	read_rule = rule;
	if (fault != NULL)
	{
		CHECK(at + 1 == atoi(fault + strlen("Character ")));
		try_error(rule, bytes, length, fault);
		return;
	}
	CHECK(number == expected);
	CHECK(message_of(call_read)[0] == '\0');
	CHECK((uint64) id_read == expected);
}

/* A text as it is, cut off, with more behind it, and with each byte in each place. */
static void
try_all_of(const Rule *rule, const char *digits)
{
	static const char *const behind[] = {"1", "z", "o", "*", "\xc3\xa9"};

	for (int length = 0; length <= rule->width; length++)
	{
		try_text(rule, digits, length, 0);
		try_text(rule, digits, length, rule->width - length);
	}
	for (int i = 0; i < lengthof(behind); i++)
		for (int length = 0; length <= rule->width; length++)
		{
			char *bytes = psprintf("%.*s%s", length, digits, behind[i]);

			try_text(rule, bytes, length, 1);
			try_text(rule, bytes, strlen(bytes), 0);
		}
	for (int i = 0; i < rule->width * 256; i++)
	{
		char bytes[MOST_DIGITS + 1];

		strcpy(bytes, digits);
		bytes[i / 256] = i % 256;
		try_text(rule, bytes, rule->width, 0);
	}
}

/* --- All -------------------------------------------------------------------------- */

static void
try_rule(const Rule *rule)
{
	char text[MOST_DIGITS + 1];

	for (int i = 0; i < 64 * 3; i++)
		try_number(rule, (UINT64CONST(1) << i / 3) + i % 3 - 1);
	for (int i = 0; i < 1000; i++)
		try_number(rule, pg_prng_uint64(&chance) >> i % 64);
	try_all_of(rule, rule->last);
	for (int i = 0; i < 3; i++)
	{
		write_by_rule(rule, pg_prng_uint64(&chance) >> i * 31, text);
		try_all_of(rule, text);
	}
}

PG_FUNCTION_INFO_V1(text_forms_cases);
Datum
text_forms_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	pg_prng_seed(&chance, 1);
	end_of_page = end_of_new_page();
	for (int i = 0; i < lengthof(rules); i++)
	{
		derive(&rules[i]);
		try_rule(&rules[i]);
	}
	PG_RETURN_INT64(tried);
}
