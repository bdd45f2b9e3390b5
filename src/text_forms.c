/*-------------------------------------------------------------------------
 *
 * text_forms.c
 *	  Ids as short texts, for URLs and for people: base32, base58, base62.
 *
 * A text is the id's 64 bits as an unsigned number in the form's digits, the
 * most significant first, and always as many as the greatest number needs: 13,
 * 11 and 11.  Others write the same:
 *	- base32 is Douglas Crockford's ("Base 32", 2002), the digits of ULIDs;
 *	- base58 has the digits of Bitcoin's base58.h, and all of them, as in a
 *	  block of Monero's addresses.  An encoder that drops leading zeroes,
 *	  which are "1" here, or turns bytes rather than a number into digits, writes
 *	  the same from 58^10 on (the layout twitter passed that in 2014);
 *	- base62 has the digits of KSUIDs.
 * Each alphabet is in the order of ASCII, and the width is fixed.  So texts
 * under COLLATE "C" sort as the ids do, from 0 up.  Negative ids, which are never
 * minted, sort after all others.
 *
 * Reading is strict: the exact length, no blanks, no signs.  In base58 and
 * base62 an id has exactly one text.  Base32 reads lower case as upper case, I
 * and L as 1, and O as 0, as Crockford says.  His hyphens and check symbols, which
 * would change the length, are refused.
 *
 * There is no state here, and nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "compat.h"
#include "layout.h"

typedef struct TextForm
{
	const char *name;
	const char *last;		/* the text of 2^64 - 1; all have its length */
	const char *alphabet;	/* a digit's value is its place */
	bool		is_lenient; /* reads as Crockford says */
} TextForm;

static const TextForm base32 = {
	.name = "base32",
	.last = "FZZZZZZZZZZZZ",
	.alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
	.is_lenient = true,
};

static const TextForm base58 = {
	.name = "base58",
	.last = "jpXCZedGfVQ",
	.alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
};

static const TextForm base62 = {
	.name = "base62",
	.last = "LygHa16AHYF",
	.alphabet =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
};

/* What read_number() found. */
typedef enum TextFault
{
	TEXT_GOOD,
	TEXT_FOREIGN,  /* a character is not in the alphabet */
	TEXT_SHORT,	   /* characters are missing at the end */
	TEXT_LONG,	   /* characters are left over at the end */
	TEXT_TOO_GREAT /* the number has more than 64 bits */
} TextFault;

/* --- Numbers and digits ------------------------------------------------- */

static int
form_width(const TextForm *form)
{
	return (int) strlen(form->last);
}

/* The digit as which Crockford reads a letter that is none. */
static char
digit_of_letter(char letter)
{
	letter = (char) pg_ascii_toupper((unsigned char) letter);
	return letter == 'O' ? '0' : letter == 'I' || letter == 'L' ? '1' : letter;
}

/* The value of a character that is read as a digit; -1 if it is none. */
static int
digit_value(const TextForm *form, char digit)
{
	const char *at;

	if (form->is_lenient)
		digit = digit_of_letter(digit);

	/* strchr(), which clang-tidy would have here, finds '\0' as well */
	/* NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
	at = memchr(form->alphabet, digit, strlen(form->alphabet));
	return at == NULL ? -1 : (int) (at - form->alphabet);
}

/* Write form_width() digits. */
static void
write_number(const TextForm *form, uint64 number, char *text)
{
	uint64 base = strlen(form->alphabet);

	for (int i = form_width(form) - 1; i >= 0; i--)
	{
		text[i] = form->alphabet[number % base];
		number /= base;
	}
}

/*
 * Read a number, and tell the first thing that is wrong, from the left; *at
 * is its index.  As digits before it are all ASCII, it counts characters as
 * well as bytes, whatever the encoding.
 *
 * A number is too great where its digits first differ from those of the last
 * text and are after them; what it wraps around to is not used.
 */
static TextFault
read_number(const TextForm *form, const char *text, size_t length,
			uint64 *number, int *at)
{
	int	   width = form_width(form);
	uint64 base = strlen(form->alphabet);
	int	   order = 0; /* as of strcmp() with the last text */

	*number = 0;
	for (int i = 0; i < width; i++)
	{
		int digit = i < length ? digit_value(form, text[i]) : -1;

		if (order == 0 || digit < 0)
			*at = i;
		if (digit < 0)
			return i < length ? TEXT_FOREIGN : TEXT_SHORT;
		if (order == 0)
			order = digit - digit_value(form, form->last[i]);
		*number = *number * base + digit;
	}
	if (length > width)
	{
		*at = width;
		return TEXT_LONG;
	}
	return order > 0 ? TEXT_TOO_GREAT : TEXT_GOOD;
}

/* --- SQL functions ------------------------------------------------------ */

pg_noreturn static void
report_text(const TextForm *form, TextFault fault, const char *text,
			size_t length, int at)
{
	char quote[LAYOUT_QUOTE_SIZE] = "";
	char culprit[16] = ""; /* quoted, or as the byte that it begins with */

	layout_quote(text, text + length, quote);
	if (at < length)
		snprintf(culprit, sizeof(culprit),
				 layout_shows(text[at]) ? "\"%c\"" : "byte 0x%02x",
				 (unsigned char) text[at]);
	if (fault == TEXT_TOO_GREAT)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%s text \"%s\" is out of range", form->name, quote),
				 errdetail("Character %d, %s, takes it past \"%s\", the last "
						   "text of 64 bits.",
						   at + 1, culprit, form->last)));
	ereport(ERROR, (errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					errmsg("invalid %s text \"%s\"", form->name, quote),
					fault == TEXT_SHORT ?
						errdetail("Character %d is missing.", at + 1) :
						errdetail("Character %d, %s, is %s.", at + 1, culprit,
								  fault == TEXT_LONG ? "past the end" :
													   "not in the alphabet"),
					errhint("A %s text is exactly %d characters of \"%s\".",
							form->name, form_width(form), form->alphabet)));
}

static Datum
to_text(const TextForm *form, int64 id)
{
	text *result = palloc(VARHDRSZ + form_width(form));

	SET_VARSIZE(result, VARHDRSZ + form_width(form));
	write_number(form, (uint64) id, VARDATA(result));
	PG_RETURN_TEXT_P(result);
}

static Datum
from_text(const TextForm *form, text *arg)
{
	const char *start = VARDATA_ANY(arg);
	size_t		length = VARSIZE_ANY_EXHDR(arg);
	uint64		number;
	int			at = 0;
	TextFault	fault = read_number(form, start, length, &number, &at);

	if (fault != TEXT_GOOD)
		report_text(form, fault, start, length, at);
	PG_RETURN_INT64((int64) number);
}

/* The functions of a form.  Its last line takes the caller's semicolon. */
#define TEXT_FORM_FUNCTIONS(form)                        \
	PG_FUNCTION_INFO_V1(snowflake_to_##form);            \
	Datum snowflake_to_##form(PG_FUNCTION_ARGS)          \
	{                                                    \
		return to_text(&(form), PG_GETARG_INT64(0));     \
	}                                                    \
	PG_FUNCTION_INFO_V1(snowflake_from_##form);          \
	Datum snowflake_from_##form(PG_FUNCTION_ARGS)        \
	{                                                    \
		return from_text(&(form), PG_GETARG_TEXT_PP(0)); \
	}                                                    \
	extern int no_such_variable

TEXT_FORM_FUNCTIONS(base32);
TEXT_FORM_FUNCTIONS(base58);
TEXT_FORM_FUNCTIONS(base62);
